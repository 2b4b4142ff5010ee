#include "slot_server.h"

#include <cstdlib>

#include "kept_reply.h"

namespace penstock::explorer {

using nfs::v4::ReplySlots;
using nfs::v4::SequenceId;
using nfs::v4::SlotId;

ReplySlots::Request SlotServer::RequestFor(const Copy& copy) const {
  return {.slot = SlotId(copy.stream),
          .sequence = SequenceId(copy.sequence),
          .highest_slot = slots_.highest(),
          .digest = 0};
}

Verdict SlotServer::Receive(const Copy& copy) {
  const auto started = slots_.Start(RequestFor(copy));
  if (!started) {
    // The client sends the request again later, and the session stays as it is.
    if (started.error() == nfs4::NFS4ERR_DELAY) return {.kind = Verdict::Kind::kWaits};
    return {.kind = Verdict::Kind::kRefused, .status = started.error()};
  }
  if (started->outcome == ReplySlots::Outcome::kReplay) {
    return {.kind = Verdict::Kind::kReplays, .reply_of = RequestOf(started->reply)};
  }
  if (started->outcome == ReplySlots::Outcome::kUncached) std::abort();  // every reply is kept
  running_ |= 1u << Place(copy.request, copy.over);
  return {.kind = Verdict::Kind::kRuns};
}

void SlotServer::Finish(const Copy& copy) {
  slots_.Finish(SlotId(copy.stream), SequenceId(copy.sequence), ReplyOf(copy.request));
  running_ &= ~(1u << Place(copy.request, copy.over));
}

void SlotServer::Withdraw(const Copy&) { std::abort(); }

// ReplySlots does not show its slots. Its answers to each possible next request show what they hold.
std::string SlotServer::Key() const {
  std::string key;
  const auto put = [&key](auto value) { key.push_back(static_cast<char>(value)); };
  for (uint8_t slot = 0; slot < slots_.count(); ++slot) {
    for (uint8_t sequence = 1; sequence <= kMostRequests; ++sequence) {
      ReplySlots probe = slots_;
      const auto started = probe.Start(RequestFor({.stream = slot, .sequence = sequence}));
      put(started ? static_cast<int>(started->outcome) : static_cast<int>(started.error()) % 100);
      put(started && started->outcome == ReplySlots::Outcome::kReplay ? RequestOf(started->reply) : kMostRequests);
    }
  }
  put(running_);
  put(running_ >> 8);
  put(bound_);
  return key;
}

bool SlotServer::Matches(const Server& other) const {
  const auto& that = dynamic_cast<const SlotServer&>(other);
  return slots_.busy() == that.slots_.busy() && slots_.kept_octets() == that.slots_.kept_octets() &&
         slots_.highest() == that.slots_.highest();
}

const char* SlotServer::FindExcess() const {
  if (slots_.busy() > slots_.count()) return "more requests are under way than there are slots";
  if (slots_.kept_octets() > slots_.count() * kReplySize) return "more replies are kept than there are slots";
  return nullptr;
}

}  // namespace penstock::explorer
