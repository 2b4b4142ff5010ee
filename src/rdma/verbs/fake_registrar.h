// A MemoryRegistrar without a device, for tests.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "rdma/verbs/memory_registrar.h"
#include "rdma/verbs/traits.h"

namespace penstock::rdma::verbs {

class FakeRegistrar : public MemoryRegistrar {
 public:
  // Find() succeeds for memory inside `slab`.
  void set_slab(ConstBytes slab) { slab_ = slab; }
  // The next calls of Register() fail.
  void set_full(bool full) { full_ = full; }
  // The next calls of Deregister() fail with this value of errno; 0: they succeed.
  void set_deregister_error(int error) { deregister_error_ = error; }
  // TakeWindow() has this many windows left.
  void set_windows(int windows) { windows_left_ = windows; }

  ibv_mr* Find(ConstBytes bytes) override {
    const bool inside = bytes.data() >= slab_.data() && bytes.data() + bytes.size() <= slab_.data() + slab_.size();
    return inside ? &slab_registration_ : nullptr;
  }
  ibv_mr* Register(ConstBytes bytes, int access) override {
    if (full_) return nullptr;
    auto registration = std::make_unique<ibv_mr>();
    registration->addr = const_cast<std::byte*>(bytes.data());
    registration->length = bytes.size();
    registration->lkey = ++last_key_;
    registration->rkey = ++last_key_;
    ibv_mr* raw = registration.get();
    registered_.emplace(raw, Registered{std::move(registration), access});
    return raw;
  }
  int Deregister(ibv_mr* registration) override {
    if (deregister_error_ == 0) registered_.erase(registration);
    return deregister_error_;
  }
  ibv_mw* TakeWindow(uint64_t) override {
    if (windows_left_ == 0) return nullptr;
    --windows_left_;
    ibv_mw* window = all_windows_.emplace_back(std::make_unique<ibv_mw>()).get();
    window->rkey = kFirstWindowKey + (next_window_++ << 8);
    return window;
  }
  void ReturnWindow(ibv_mw* window) override { returned_.push_back(window); }
  void DestroyWindow(ibv_mw* window) override { destroyed_.push_back(window); }

  static constexpr uint32_t kSlabKey = 0x5AB0;
  // Each window has its own key in the upper 24 bits.
  static constexpr uint32_t kFirstWindowKey = 0x123400;

  size_t registrations() const { return registered_.size(); }
  int AccessOf(ibv_mr* registration) const { return registered_.at(registration).access; }
  const std::vector<ibv_mw*>& returned() const { return returned_; }
  const std::vector<ibv_mw*>& destroyed() const { return destroyed_; }

 private:
  struct Registered {
    std::unique_ptr<ibv_mr> registration;
    int access = 0;
  };
  static ibv_mr MakeSlabRegistration() {
    ibv_mr registration{};
    registration.lkey = kSlabKey;
    return registration;
  }

  ConstBytes slab_;
  ibv_mr slab_registration_ = MakeSlabRegistration();
  bool full_ = false;
  int deregister_error_ = 0;
  int windows_left_ = 1000;
  uint32_t next_window_ = 0;
  uint32_t last_key_ = 0;
  std::map<ibv_mr*, Registered> registered_;
  std::vector<std::unique_ptr<ibv_mw>> all_windows_;
  std::vector<ibv_mw*> returned_, destroyed_;
};

// A device that exposes memory by windows, as most adapters do.
inline Traits WindowTraits() {
  Traits traits;
  traits.transport = Transport::kRoce;
  traits.max_sge = 4;
  traits.windows_type_2 = true;
  traits.max_windows = 1000;
  return traits;
}
// A device without windows.
inline Traits RegistrationTraits() {
  Traits traits = WindowTraits();
  traits.windows_type_2 = false;
  return traits;
}

}  // namespace penstock::rdma::verbs
