// A session of RFC 8881 under exploration: ReplySlots. Channels are connections of the session there. A retry names no
// channel; the slot and the sequence ID identify it.
#pragma once

#include <memory>
#include <string>

#include "nfs/v4/state/sessions/reply_slots.h"
#include "server.h"

namespace penstock::explorer {

class SlotServer : public Server {
 public:
  explicit SlotServer(uint32_t slots) : slots_(slots) {}

  std::unique_ptr<Server> Clone() const override { return std::make_unique<SlotServer>(*this); }
  void Bind(int channel) override { bound_ |= static_cast<uint8_t>(1u << channel); }
  void Lose(int channel) override { bound_ &= static_cast<uint8_t>(~(1u << channel)); }
  Verdict Receive(const Copy& copy) override;
  void Finish(const Copy& copy) override;
  void Withdraw(const Copy& copy) override;
  bool can_withdraw() const override { return false; }
  uint8_t bound() const override { return bound_; }
  std::string Key() const override;
  bool Matches(const Server& other) const override;
  const char* FindExcess() const override;

 private:
  nfs::v4::ReplySlots::Request RequestFor(const Copy& copy) const;
  nfs::v4::ReplySlots slots_;
  uint8_t bound_ = 0;
};

}  // namespace penstock::explorer
