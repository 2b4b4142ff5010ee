// A session (RFC 8881 §2.10): its slots, its connections and its backchannel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/client.h"
#include "nfs/v4/state/sessions/bound_connections.h"
#include "nfs/v4/state/sessions/reply_slots.h"
#include "nfs/v4/state/stable/reply_store.h"
#include "rpc/auth.h"

namespace penstock::nfs::v4 {

// The slots of the backchannel. The server is the requester there, so it numbers the calls (RFC 8881 §2.10.6.1).
class CallbackSlots {
 public:
  struct Slot {
    SlotId id;
    SequenceId sequence;
  };

  explicit CallbackSlots(uint32_t count) : slots_(count) {}

  // Takes a slot without a call under way. Returns it with the sequence ID of its next call; returns nothing if all
  // slots are busy.
  std::optional<Slot> Take();
  enum class Fate : uint8_t {
    kSeen,     // the client has executed the call: the sequence ID is used up
    kUnseen,   // the client has not executed the call
    kUnknown,  // the slot is lost: the server cannot tell which sequence ID the client expects next
  };
  // Returns a slot after its call, with the fate of the call.
  void Give(const Slot& slot, Fate fate);
  SlotId highest_busy() const;
  bool all_lost() const { return lost_ == slots_.size(); }

 private:
  struct Entry {
    uint32_t sequence = 0;  // the last call that the client executed had this sequence ID
    bool taken = false;     // busy or lost
  };
  std::vector<Entry> slots_;
  size_t lost_ = 0;
};

struct Session {
  SessionId id;
  Client* client;
  MinorVersion minor_version;  // the callbacks of the session have this version
  nfs4::channel_attrs4 fore;
  nfs4::channel_attrs4 back;
  ReplySlots slots;
  BoundConnections connections;

  // The backchannel: the client's program, and the credential that it expects.
  uint32_t callback_program;
  rpc::ClientCredential callback_credential;
  CallbackSlots callback_slots;
  // The client has given a connection to the backchannel, so it expects callbacks.
  bool has_back_channel = false;

  // The session counts as one of the persistent sessions.
  bool persistent = false;
  // The store of the replies, which outlives the server; null if the session is not persistent or is not yet finished.
  std::shared_ptr<SessionReplies> replies{};
  // A reply could not be kept, so the server cannot promise exactly-once semantics any more and accepts no new request.
  bool dead = false;

  // All slots of the backchannel are lost (SEQ4_STATUS_BACKCHANNEL_FAULT).
  bool back_channel_fault() const { return callback_slots.all_lost(); }
  bool back_channel_works() const { return !back_channel_fault() && connections.HasBack(); }
};

}  // namespace penstock::nfs::v4
