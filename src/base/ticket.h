// A ticket: the proof that its holder has taken a share of something limited, such as memory, room in a queue, or one
// of the calls that may run. The share goes back exactly once: by GiveBack(), or when the ticket is destroyed. Early
// returns of a function therefore cannot forget it.
#pragma once

#include <tuple>
#include <utility>

namespace penstock {

// `kGiveBack` is the member function of the owner that takes the share back:
//
//   void ReleaseRoom(size_t octets);
//   using RoomTicket = Ticket<&Owner::ReleaseRoom>;
//   RoomTicket room(owner, 4096);  // calls owner.ReleaseRoom(4096) at the end
//
// The constructor takes nothing by itself: the code that makes the ticket has done so. The owner must outlive the
// ticket. In a coroutine each ticket needs a name (CONTRIBUTING.md, Style 11).
template <auto kGiveBack>
class Ticket;

template <class Owner, class... Share, void (Owner::*kGiveBack)(Share...)>
class [[nodiscard]] Ticket<kGiveBack> {
 public:
  // Holds nothing.
  Ticket() = default;
  explicit Ticket(Owner& owner, Share... share) : owner_(&owner), share_(std::move(share)...) {}
  Ticket(Ticket&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), share_(std::move(other.share_)) {}
  // Gives back the share that this ticket held before.
  Ticket& operator=(Ticket&& other) noexcept {
    if (this == &other) return *this;
    GiveBack();
    owner_ = std::exchange(other.owner_, nullptr);
    share_ = std::move(other.share_);
    return *this;
  }
  ~Ticket() { GiveBack(); }

  // Does nothing if the ticket holds no share any more. The owner's function may resume coroutines.
  void GiveBack() {
    Owner* const owner = std::exchange(owner_, nullptr);
    if (!owner) return;
    std::apply([owner](Share... share) { (owner->*kGiveBack)(share...); }, share_);
  }

 private:
  Owner* owner_ = nullptr;
  std::tuple<Share...> share_;
};

}  // namespace penstock
