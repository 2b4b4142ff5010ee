// A session of 2004 with a server (draft-talpey-nfsv4-rdma-sess-01; docs/sessions-2004.md). BoundSession keeps its
// lease, its channels and its streams, and creates the session again if it is lost. BoundLease decides on the next step
// and StreamTable on streamids; this class makes their calls. Links keep the connections.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/nfs4/compound_caller.h"
#include "client/nfs4/sess01/bound_lease.h"
#include "client/nfs4/sess01/chain.h"
#include "client/nfs4/sess01/link.h"
#include "client/nfs4/sess01/stream_table.h"
#include "client/turn.h"
#include "client/url.h"

namespace penstock::client::v4::sess01 {

class BoundSession final : public CompoundCaller, private LinkOwner, private BoundReceiver {
 public:
  struct Parts {
    TimerService& timers;
    BufferPool& buffers;
    rpc::ClientCredential credential;
    Connector& connector;
    CallbackReceiver& state;  // handles CB_RECALL and CB_GETATTR
    RetryPolicy retry;
    // The channel and client of the first operations link. The opener of the channel calls first().Open(). `first_xid`
    // is that of the client.
    ReconnectingChannel& channel;
    rpc::Client& client;
    rpc::Xid first_xid;
    Cancellation* ending = nullptr;  // that of the caller's options
  };
  // All parts outlive the session.
  BoundSession(Parts parts, CallerOptions options, const BoundSessionOptions& session);
  ~BoundSession() override;

  Link& first() { return *links_.front(); }

  // SESSION_DESTROY (§6.3).
  Task<void> Close() override;

  const BoundLease& lease() const override { return lease_; }
  const StreamTable& streams() const { return streams_; }
  // The session names the client, so that clientids are zero (§3.5).
  nfs4::clientid4 client() const override { return 0; }
  uint64_t epoch() const override { return lease_.epoch(); }
  Duration lease_time() const override { return lease_.lease_time(); }
  bool keeps_replies() const override { return lease_.persists(); }
  uint32_t max_request() const override { return max_request_; }
  uint32_t max_response() const override { return max_response_; }

  uint64_t reconnections() const;
  // See client::Mount::trouble().
  const SetupError& trouble() const;

 private:
  // ---- requests (requests.cc)

  struct Request {
    uint32_t stream = 0;
    Link* link = nullptr;
    uint64_t generation = 0;
  };
  // The reply to one request. `control` is the status of OPERATION_CONTROL, or NFS4ERR_SESS01_UNKNOWN_FATE if the
  // server has lost the session and may have executed a change before.
  struct Answer {
    rpc::Message message;
    nfs4::nfsstat4 control = nfs4::nfsstat4::NFS4_OK;
    nfs4::nfsstat4 status = nfs4::nfsstat4::NFS4_OK;
    uint32_t count = 0;      // the number of results behind that of OPERATION_CONTROL
    bool is_retry = false;   // the request went over another connection than it was made for
    bool restarted = false;  // the server has restarted since the request was sent first
  };
  struct Chained;  // a chain under way

  Task<Result<Executed>> Execute(Compound& compound, std::string_view what) override;
  // Takes a streamid of the session `generation`. Returns nothing if that session is lost.
  Task<std::optional<uint32_t>> TakeStream(uint64_t generation);
  // The link with the most free credits that no chain has; null if there is none.
  Link* FindLink() const;
  Task<std::optional<Request>> StartRequest(uint64_t generation);
  // Sends one request, and gives its streamid and its link back.
  Task<Result<Answer>> Send(Request request, nfs4::ChainFlags flag, CompoundParts& parts, Part part,
                            std::string_view what);
  // Decides how a COMPOUND goes on if OPERATION_CONTROL of the request with `part` has failed.
  static Fate HandleControl(const Answer& answer, const CompoundParts& parts, Part part);
  // Decides how a COMPOUND goes on after its last result of `count` has this error.
  Fate FateOf(nfs4::nfsstat4 status, const Compound& compound, uint32_t count) const;
  // Octets for the operations of one request and for their results.
  Size Room() const;
  // The parts that the COMPOUND must be split into; none if it fits in one request.
  std::vector<Part> PartsOf(const Compound& compound) const;

  Task<Result<Executed>> ExecuteChain(Compound& compound, std::vector<Part> parts, std::string_view what);
  Task<void> SendChain(Chained& chain);
  Task<void> RunPart(Chained& chain, size_t index, Request request);
  Task<void> EndChain(Chained& chain, Request request);
  Result<Executed> ResultOf(Chained& chain);

  // ---- the session

  bool ready() const override { return lease_.ready(); }
  int step() const override { return static_cast<int>(lease_.next()); }
  Task<Result<void>> TakeStep(std::string_view what) override;
  nfs4::nfsstat4 obstacle() const override { return obstacle_; }
  Task<Result<void>> Create(std::string_view what);
  Task<Result<void>> BindBack(std::string_view what);
  Task<Result<void>> BindOperations(std::string_view what);
  void LoseSession(uint64_t generation);

  TimePoint renewed_at() const override { return lease_.renewed_at(); }
  Task<void> RenewLease() override;
  void HandleLeaseTime(Duration time) override { lease_.set_lease_time(time); }
  // Connects a link again that has lost its connection (§2.6, §6.2).
  Task<void> Restore(Link& link);
  Task<void> BindBackLater(Link& link);
  void StartRecovery();
  Task<void> RecoverAlone();

  // LinkOwner
  Task<Result<Bound, BindFailure>> SendBind(rpc::Client& client, nfs4::SESSIONBIND4args arguments) override;
  void HandleBound(nfs4::ChannelType type, const Bound& bound, uint64_t generation) override;
  void HandleUnknownSession(uint64_t generation) override { LoseSession(generation); }
  void HandleConnectionLost(Link& link) override;
  void HandleBackRefused(Link& link) override;
  bool Accepts(const Bound& bound) const override;

  // BoundReceiver
  CallbackTable& callbacks() override { return callbacks_; }
  Signal& callbacks_changed() override { return callbacks_changed_; }
  Task<nfs4::nfsstat4> RecallCredits(uint32_t target) override;

  BufferPool& buffers_;
  const Connector& connector_;
  const BoundSessionOptions session_options_;
  BoundLease lease_;
  StreamTable streams_{1};
  CallbackTable callbacks_;
  Signal callbacks_changed_;
  std::vector<std::unique_ptr<Link>> links_;  // operations channels
  std::unique_ptr<Link> back_link_;           // null unless the back channel has a connection of its own
  Link* back_ = nullptr;                      // the link with the back channel; null if there is none
  // The sizes that the mount relies on; zero before the channels are bound for the first time.
  uint32_t max_request_ = 0;
  uint32_t max_response_ = 0;
  // The status of the last SESSION_CREATE that was delayed, or of the last request that has lost the session.
  nfs4::nfsstat4 obstacle_ = nfs4::nfsstat4::NFS4ERR_DELAY;
  bool was_ready_ = false;  // from then on, Close() ends what runs in the background
  bool recovering_alone_ = false;
  size_t recalls_ = 0;  // CB_CREDITRECALLs under way
  bool binding_later_ = false;
  std::vector<Link*> restoring_;
  Turn chain_turn_;  // one chain at a time takes streamids
  Signal changed_;   // streams, links or the lease
};

}  // namespace penstock::client::v4::sess01
