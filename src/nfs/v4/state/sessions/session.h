// A session (RFC 8881 §2.10).
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

// The slots of the backchannel, where we are the requester: we number what we send (RFC 8881 §2.10.6.1).
class CallbackSlots {
 public:
  struct Slot {
    SlotId id;
    SequenceId sequence;
  };

  explicit CallbackSlots(uint32_t count) : slots_(count) {}

  // A slot without a call under way, and the number of the next call on it. Nothing where all are busy.
  std::optional<Slot> Take();
  enum class Fate : uint8_t {
    kSeen,     // the client has executed the call: the number is used up
    kUnseen,   // it has not
    kUnknown,  // the slot is lost: nobody can tell which number the client expects next
  };
  void Give(const Slot& slot, Fate fate);
  SlotId highest_busy() const;
  bool all_lost() const { return lost_ == slots_.size(); }

 private:
  struct Entry {
    uint32_t sequence = 0;  // of the last call that the client has executed
    bool taken = false;     // busy or lost
  };
  std::vector<Entry> slots_;
  size_t lost_ = 0;
};

struct Session {
  SessionId id;
  Client* client;
  MinorVersion minor_version;  // of its callbacks
  nfs4::channel_attrs4 fore;
  nfs4::channel_attrs4 back;
  ReplySlots slots;
  BoundConnections connections;

  // The backchannel: the client's program, and what it wants to be called as; nothing that we can be, where there is none.
  uint32_t callback_program;
  std::optional<rpc::ClientCredential> callback_credential;
  CallbackSlots callback_slots;
  // A connection was given to the backchannel once, so that its client counts on it.
  bool has_back_channel = false;

  // A place among the persistent sessions is taken.
  bool persistent = false;
  // Where its replies are kept, and stay when the server starts again; null where it is not persistent (yet).
  std::shared_ptr<SessionReplies> replies{};
  // A reply could not be kept: what is promised can be promised no longer, and nothing new is taken.
  bool dead = false;

  // We have lost track of the numbers on the backchannel (SEQ4_STATUS_BACKCHANNEL_FAULT).
  bool back_channel_fault() const { return callback_slots.all_lost(); }
  bool back_channel_works() const { return callback_credential && !back_channel_fault() && connections.HasBack(); }
};

}  // namespace penstock::nfs::v4
