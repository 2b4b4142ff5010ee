#include "client/nfs4/mount.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/signal.h"
#include "client/connect.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/callback.h"
#include "client/nfs4/client_id.h"
#include "client/nfs4/complete_directories.h"
#include "client/nfs4/create_file.h"
#include "client/nfs4/delegations.h"
#include "client/nfs4/extended.h"
#include "client/nfs4/file.h"
#include "client/nfs4/moved_file_systems.h"
#include "client/nfs4/names.h"
#include "client/nfs4/revoked_state.h"
#include "client/nfs4/sess01/bound_session.h"
#include "client/nfs4/session.h"
#include "client/set_up.h"
#include "idmap/owner_text.h"

namespace penstock::client::v4 {
namespace {

constexpr uint32_t kLargestTransfer = 1 << 20;
constexpr uint32_t kLargestDirectory = 64 << 10;
// The reply that lists a directory whose names the client is to know all.
constexpr uint32_t kShortListing = 32 << 10;

CallerOptions OptionsOf(const Url& url, const Dialect& dialect, CallSecurity& security, Cancellation& ending) {
  CallerOptions options = UniqueCaller(dialect);
  options.security = &security;
  options.persist = url.session.persist;
  options.give_up_after = url.recovery.CallLimit();
  options.read_only = url.read_only;
  options.ending = &ending;
  return options;
}

class Mount final : public ServerMount, public FileOwner, private CallbackReceiver, private StateHolder {
 public:
  Mount(Loop& loop, Workers& workers, Url url, const Dialect& dialect, const MountOptions& options)
      : ServerMount(loop, std::move(url)),
        callbacks_(kBackSlots, *this),
        security_(loop, workers, url_, options.initiators),
        channel_(
            loop,
            [this, &workers, provider = options.provider](Duration time_limit) {
              return OpenBound(workers, provider, time_limit);
            },
            Limited(options.retry, url_), &ending_),
        client_(channel_, loop.buffers(), first_xid_, security_.credential()),
        owners_(options.owners),
        directories_(options.trusts_directories_for) {
    MakeCaller(workers, OptionsOf(url_, dialect, security_, ending_), options);
    revoked_.emplace(*caller_, static_cast<StateHolder&>(*this));
    delegations_.emplace(*caller_, *revoked_, options.delegations);
    caller_->set_reclaim([this] { return ReclaimFiles(); });
    moved_.emplace(*caller_);
    caller_->set_revoked([this](bool some) {
      delegations_->HandleRevoked(some);
      revoked_->HandleFlag(some);
    });
    caller_->set_lease_moved([this] { moved_->HandleLeaseMoved(); });
    caller_->set_may_rest([this] { return files_.empty() && delegations_->GiveUpAll(); });
  }

  // See OpenServer().
  Task<Result<void>> SetUp(Flavors& accepted, const Entrance* entrance);

  std::string_view version() const override { return caller_->dialect().name; }
  Protocol transport() const override {
    if (!bound_) return url_.protocol;
    return bound_->first().is_rdma() ? Protocol::kRdma : Protocol::kTcp;
  }
  uint64_t reconnections() const override { return bound_ ? bound_->reconnections() : channel_.reconnections(); }
  SetupError trouble() const override {
    if (ending_.cancelled()) return channel_.trouble();
    SetupError unprotected = security_.trouble();
    if (!unprotected.message.empty()) return unprotected;
    return bound_ ? bound_->trouble() : channel_.trouble();
  }
  Task<void> Unmount() override {
    // A server that does not answer forgets this client when the lease expires.
    channel_.HandleClosing();
    if (caller_->answered()) (void)delegations_->GiveUpAll();
    co_await caller_->Close();
    co_await GiveContextBack();
    if (!channel_.connects_further()) co_return;
    // This code may run inside of a connection.
    co_await Sleep(loop_, Duration::zero());
    ending_.Cancel();
    co_await channel_.EndConnecting();
  }
  void Abort() override { ending_.Cancel(); }

  Task<Result<void>> Ping() override;
  Task<Result<Node>> Lookup(const Handle& directory, std::string_view name) override;
  Task<Result<std::vector<Location>>> GetLocations(const Handle& directory, std::string_view name) override {
    return v4::GetLocations(*caller_, directory, name);
  }
  Task<Result<std::vector<Location>>> GetLocationsOf(const Handle& object, std::string_view what) override {
    return v4::GetLocationsOf(*caller_, object, what);
  }
  Task<Result<std::unique_ptr<client::File>>> Reopen(const client::File& before, const Node& at) override;
  void HandleReopened(client::File& before, client::File& after) override;
  void set_follow(std::function<void(uint64_t)> follow) override {
    moved_->set_follow([this, follow = std::move(follow)](uint64_t file_system) {
      delegations_->HandleMoved(file_system);
      follow(file_system);
    });
  }
  Task<void> CompleteReclaim(const Handle& root) override;
  Task<Result<Flavors>> GetFlavors(const Handle& directory, std::string_view name) override {
    return v4::GetFlavors(*caller_, directory, name);
  }
  Task<Result<Attributes>> GetAttributes(const Handle& object, std::string_view what) override;
  Task<Result<void>> SetAttributes(const Handle& object, std::string_view what,
                                   const NewAttributes& attributes) override;
  Task<Result<std::string>> ReadLink(const Handle& symlink, std::string_view what) override {
    return v4::ReadLink(*caller_, symlink, what);
  }
  Task<Result<Space>> GetSpace(const Handle& object, std::string_view what) override {
    return v4::GetSpace(*caller_, object, what);
  }
  Task<Result<Node>> MakeDirectory(const Handle& directory, std::string_view name, uint32_t mode) override {
    return ChangingNames(directory, v4::MakeDirectory(*caller_, directory, name, mode));
  }
  Task<Result<Node>> MakeSymlink(const Handle& directory, std::string_view name, std::string_view target) override {
    return ChangingNames(directory, v4::MakeSymlink(*caller_, directory, name, target));
  }
  Task<Result<Node>> MakeNode(const Handle& directory, std::string_view name, FileType type, uint32_t mode,
                              uint32_t device_major, uint32_t device_minor) override {
    return ChangingNames(directory, v4::MakeNode(*caller_, directory, name, type, mode, {device_major, device_minor}));
  }
  Task<Result<Listing>> ListFrom(const Handle& directory, std::string_view what, ListPosition from,
                                 ListContent content) override;
  Task<Result<Granted>> CheckAccess(const Handle& object, std::string_view what, uint32_t rights) override {
    return v4::CheckAccess(*caller_, object, what, rights);
  }
  Task<Result<std::vector<std::byte>>> GetXattr(const Handle& object, std::string_view what,
                                                std::string_view name) override {
    return v4::GetXattr(*caller_, object, what, name);
  }
  Task<Result<void>> SetXattr(const Handle& object, std::string_view what, std::string_view name, ConstBytes value,
                              XattrMode mode) override {
    return Changing(object, v4::SetXattr(*caller_, object, what, name, value, mode));
  }
  Task<Result<std::vector<std::string>>> ListXattrs(const Handle& object, std::string_view what) override {
    return v4::ListXattrs(*caller_, object, what);
  }
  Task<Result<void>> RemoveXattr(const Handle& object, std::string_view what, std::string_view name) override {
    return Changing(object, v4::RemoveXattr(*caller_, object, what, name));
  }
  Task<Result<std::vector<Ace>>> GetAcl(const Handle& object, std::string_view what) override {
    return v4::GetAcl(*caller_, object, what);
  }
  Task<Result<void>> SetAcl(const Handle& object, std::string_view what, const std::vector<Ace>& acl) override {
    // The mode follows from the list (RFC 8881 §6.4.1.2).
    return Changing(object, SendAcl(object, what, acl));
  }
  Task<Result<void>> Link(const Handle& file, const Handle& directory, std::string_view name) override;
  Task<Result<void>> Rename(const Handle& from_directory, std::string_view from, const Handle& to_directory,
                            std::string_view to) override;
  Task<Result<void>> Remove(const Handle& directory, std::string_view name) override;
  Task<Result<void>> RemoveDirectory(const Handle& directory, std::string_view name) override {
    return ChangingNames(directory, v4::RemoveDirectory(*caller_, directory, name));
  }
  Task<Result<std::unique_ptr<client::File>>> OpenFile(const Node& file, std::string_view what, Access access) override;
  Task<Result<std::unique_ptr<client::File>>> CreateFile(const Handle& directory, std::string_view name, uint32_t mode,
                                                         CreateMode how, Access access) override;

 private:
  using Channel = SetupResult<std::unique_ptr<rpc::Channel>>;
  void MakeCaller(Workers& workers, CallerOptions caller_options, const MountOptions& options);
  // Opens a connection and binds it to the session, so that the server can call back.
  Task<Channel> OpenBound(Workers& workers, rdma::Provider* provider, Duration time_limit);
  // Asks which server a connection leads to. Refuses another server than that of the mount. Returns nothing if the
  // server does not answer that.
  Task<SetupResult<std::optional<ServerIdentity>>> CheckServer(rpc::Channel& connection, ConnectionKind kind,
                                                               bool is_further);
  // Binds the connection to the session that there is now. Returns false if the server refuses that, or does not
  // answer.
  Task<bool> Bind(rpc::Channel& connection);
  // See Session::set_bind_all().
  Task<void> BindAll(bool session_is_new);
  Task<void> GiveContextBack();
  // Makes sure that the server speaks version 4.
  Task<Result<void>> CheckVersion();
  Task<Result<void>> LearnLimits(const Entrance* entrance);
  Result<void> HandleLimits(const nfs4::GETFH4res& root, const nfs4::GETATTR4res& attributes);
  Task<void> ReclaimFiles();
  Task<void> LearnNames(const Handle& directory, std::string_view what);
  // Makes a call that changes names in the directory.
  template <class T>
  Task<Result<T>> ChangingNames(Handle directory, Task<Result<T>> call);
  static Task<void> CloseQuietly(std::shared_ptr<v4::OpenFile> file) {
    const Result<void> closed = co_await file->Close();
    if (!closed) log::debug("{}", closed.error().message);
  }
  // Makes a call that changes the object.
  Task<Result<void>> Changing(Handle object, Task<Result<void>> call);
  // Calls `send` with values that have owners, once or twice.
  template <class Values, class Send>
  Task<Result<void>> SendOwners(const Values& values, Send send);
  Task<NewAttributes> WithNames(NewAttributes attributes);
  Task<std::vector<Ace>> WithNames(std::vector<Ace> acl);
  Task<void> PutName(idmap::Kind kind, std::string& text);
  Task<Result<void>> SendAcl(const Handle& object, std::string_view what, const std::vector<Ace>& acl);

  // FileOwner
  CompoundCaller& caller() override { return *caller_; }
  Delegations& delegations() override { return *delegations_; }
  StateOwner NewOwner(std::string_view name) override { return StateOwner(next_owner_++, name); }
  const TransferSizes& transfer_sizes() const override { return sizes_; }
  void Add(v4::OpenFile& file) override { files_.insert(&file); }
  void Remove(v4::OpenFile& file) override { files_.erase(&file); }
  void HandleOpened(const Handle& file, uint64_t file_system) override { moved_->HandleOpened(file, file_system); }
  void Free(const nfs4::stateid4& stateid) override { revoked_->Free(stateid); }

  // StateHolder
  std::vector<nfs4::stateid4> stateids() const override;
  void HandleTested(const nfs4::stateid4& stateid, nfs4::nfsstat4 status) override;

  // CallbackReceiver
  nfs4::sessionid4 session() const override { return session_->lease().session(); }
  bool IsUnderWay(SlotUse request) const override { return session_->slots().IsUnderWay(request); }
  void HandleSlotTarget(uint32_t target) override {
    session_->slots().HandleTarget(target);
    session_->HandleSlotsChanged();
  }
  nfs4::nfsstat4 HandleRecall(const nfs4::CB_RECALL4args& recall) override {
    return delegations_->HandleRecall(recall);
  }
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args& recall) override { delegations_->HandleRecallAny(recall); }
  Delegations::Pointer DelegationOf(const Handle& file) override { return delegations_->ForGetAttributes(file); }
  void HandleLockAvailable(const Handle& file) override;

  rpc::Dispatcher dispatcher_;
  CallbackProgram callbacks_;
  std::optional<sess01::UrlConnector> connector_;
  Cancellation ending_;
  CallSecurity security_;
  const Cancellation::Entry ending_security_{&ending_, [this] { security_.Stop(); }};
  ReconnectingChannel channel_;
  const rpc::Xid first_xid_ = rpc::RandomXid();
  rpc::Client client_;
  std::unique_ptr<CompoundCaller> caller_;
  // caller_ as what it is, or null
  Session* session_ = nullptr;
  sess01::BoundSession* bound_ = nullptr;
  std::optional<RevokedState> revoked_;
  std::optional<Delegations> delegations_;
  std::optional<MovedFileSystems> moved_;
  std::set<v4::OpenFile*> files_;
  const idmap::Mapper* const owners_;
  CompleteDirectories directories_;
  // With url_.tcp_port: the server of the mount, if it says over RDMA who it is.
  std::optional<ServerIdentity> identity_;
  bool sends_names_ = false;  // the server has refused a number, and has accepted a name
  uint64_t next_owner_ = 1;
};

// ---- set-up ----

void Mount::MakeCaller(Workers& workers, CallerOptions caller_options, const MountOptions& options) {
  switch (caller_options.dialect->sessions) {
    case SessionKind::kNone:
      caller_ = std::make_unique<ClientId>(loop_, client_, std::move(caller_options));
      break;
    case SessionKind::kSlots: {
      auto session = std::make_unique<Session>(loop_, client_, std::move(caller_options));
      session_ = session.get();
      session_->set_bind_all([this](bool session_is_new) { return BindAll(session_is_new); });
      caller_ = std::move(session);
      dispatcher_.Add(callbacks_);
      dispatcher_.Offer(security_.callback_flavor());
      break;
    }
    case SessionKind::kBound: {
      connector_.emplace(loop_, workers, url_, options.provider, &ending_);
      const sess01::BoundSession::Parts parts{.timers = loop_,
                                              .buffers = loop_.buffers(),
                                              .credential = security_.credential(),
                                              .connector = *connector_,
                                              .state = *this,
                                              .retry = Limited(options.retry, url_),
                                              .channel = channel_,
                                              .client = client_,
                                              .first_xid = first_xid_,
                                              .ending = &ending_};
      auto session = std::make_unique<sess01::BoundSession>(parts, std::move(caller_options), url_.session);
      bound_ = session.get();
      caller_ = std::move(session);
      break;
    }
  }
}

Task<Mount::Channel> Mount::OpenBound(Workers& workers, rdma::Provider* provider, Duration time_limit) {
  if (bound_) co_return co_await bound_->first().Open(time_limit);
  ChannelOptions options;
  options.time_limit = time_limit;
  if (session_) options.back_channel = &dispatcher_;
  const bool is_further = !channel_.connections().empty();
  const ConnectionKind kind = channel_.next_kind();
  Channel channel = co_await OpenConnectionOf(channel_, loop_, workers, url_, provider, std::move(options));
  if (!channel) co_return channel;
  if (!session_) co_return security_.Protect(*std::move(channel));
  const auto is_cancelled = [this] { return IsCancelled(channel_.attempt()); };
  const std::unexpected<SetupError> cancelled({"cancelled", ECANCELED});
  if (is_cancelled()) {
    // This code may run inside of the channel, which must not be destroyed in the same turn.
    co_await Sleep(loop_, Duration::zero());
    co_return cancelled;
  }
  const Cancellation::Entry entry(channel_.attempt(), [at = channel->get()] { at->Close(); });
  std::optional<ServerIdentity> identity;
  if (url_.tcp_port) {
    PENSTOCK_CO_TRY(identity, co_await CheckServer(**channel, kind, is_further));
  }
  channel = security_.Protect(*std::move(channel));
  const bool is_bound = co_await Bind(**channel);
  if (is_cancelled()) co_return cancelled;
  if (!is_bound && is_further) {
    co_return std::unexpected(SetupError{"the server does not bind a further connection to the session", EPROTO});
  }
  if (identity) identity_ = std::move(identity);
  co_return channel;
}

// RFC 8881 §2.10.5: another server, for example one of the kernel, may have the port of one transport. This is found
// out before a call is protected by the security context of the mount, which belongs to its server. If no connection is
// up, the server at the port of RDMA is the server of the mount, as in a mount over one transport: it may have taken
// over from the one before.
Task<SetupResult<std::optional<ServerIdentity>>> Mount::CheckServer(rpc::Channel& connection, ConnectionKind kind,
                                                                    bool is_further) {
  const bool is_main = kind == ConnectionKind::kMain;
  const bool is_kerberos = !ServicesOf(security_.flavor()).empty();
  const auto credential = is_kerberos ? rpc::ClientCredential() : security_.credential();
  rpc::Client client(connection, loop_.buffers(), rpc::RandomXid(), credential);
  auto identity = co_await session_->Identify(client, channel_.attempt());
  // This code may run inside of the channel, which must not be used in the same turn.
  co_await Sleep(loop_, Duration::zero());
  const auto refuse = [&](std::string_view why) {
    const uint16_t port = is_main ? url_.port : *url_.tcp_port;
    return std::unexpected(SetupError{fmt::format("{} port {}: {}", url_.host, port, why), EPROTO});
  };
  if (!is_main && !identity_) co_return refuse("the server did not say over RDMA who it is");
  if (!is_main && !identity) co_return refuse("the server there does not say who it is");
  const bool may_be_another = is_main && !is_further;
  const bool is_another = identity && identity_ && identity != identity_;
  if (is_another && !may_be_another) co_return refuse("another server answers there");
  co_return identity;
}

Task<bool> Mount::Bind(rpc::Channel& connection) {
  uint64_t bound_to = 0;  // the number of a session
  bool is_bound = true;
  while (session_->lease().has_session() && session_->lease().generation() != bound_to && !ending_.cancelled()) {
    bound_to = session_->lease().generation();
    rpc::Client client(connection, loop_.buffers(), rpc::RandomXid(), security_.credential());
    is_bound = co_await session_->Bind(client);
    // This code may run inside of the channel, which must not be used in the same turn.
    co_await Sleep(loop_, Duration::zero());
  }
  co_return is_bound;
}

// At the same time, so that connections to a server that is gone do not add up their waits.
Task<void> Mount::BindAll(bool session_is_new) {
  const auto connections = channel_.connections();
  // CREATE_SESSION has bound the connection over which it was sent.
  if (session_is_new && connections.size() < 2) co_return;
  size_t left = connections.size();
  Signal ended;
  const auto bind = [&](std::shared_ptr<rpc::Channel> connection) -> Task<void> {
    (void)co_await Bind(*connection);
    --left;
    ended.Notify();
  };
  for (const auto& each : connections) Spawn(bind(each));
  while (left > 0) co_await ended;
}

Task<Result<void>> Mount::CheckVersion() {
  auto spoken = co_await client_.Call<nfs4::NFSPROC4_NULL>({});
  if (spoken) co_return Result<void>();
  Error error = v4::ErrorOf(spoken.error(), url_.host);
  using Kind = rpc::Error::Kind;
  if (spoken.error().kind == Kind::kProgramMismatch || spoken.error().kind == Kind::kProgramUnavailable) {
    error.status = Status::kVersionMismatch;
  }
  co_return std::unexpected(std::move(error));
}

Task<Result<void>> Mount::SetUp(Flavors& accepted, const Entrance* entrance) {
  auto connected = co_await channel_.Connect();
  if (!connected) co_return std::unexpected(NotConnected(std::move(connected).error(), ending_, url_.host));
  // A session of 2004 must be the subject of the first exchange (draft-talpey-nfsv4-rdma-sess-01 §2.2.2).
  if (!bound_) PENSTOCK_CO_CHECK(co_await CheckVersion());
  PENSTOCK_CO_CHECK(co_await caller_->Establish(url_.host));
  Result<void> learned = co_await LearnLimits(entrance);
  if (learned) {
    log::info("{}: NFS version {} by sec={}", url_.host, version(), NameOf(security_.flavor()));
    // A session of 2004 has connections of its own for more streams.
    const auto repetition = session_ ? Repetition::kOverAnyConnection : Repetition::kOverNewerConnection;
    if (!bound_) channel_.Widen(url_.nconnect, repetition, url_.tcp_port ? 1 : 0);
    co_return learned;
  }
  if (learned.error().status == Status::kWrongSecurity) {
    auto flavors = co_await GetRootFlavors(*caller_, url_.host);
    if (flavors) accepted = *std::move(flavors);
  }
  co_await caller_->Close();
  co_await GiveContextBack();
  co_return learned;
}

Task<void> Mount::GiveContextBack() {
  if (!security_.has_context()) co_return;
  client_.set_credential(rpc::ClientCredential::EndOfContext());
  (void)co_await client_.Call<nfs4::NFSPROC4_NULL>({});
}

Task<Result<void>> Mount::LearnLimits(const Entrance* entrance) {
  const nfs4::GETATTR4args limits{LimitAttributes(caller_->dialect())};
  if (entrance) {
    const auto build = [&] {
      return std::tuple(nfs4::PUTFH4args{entrance->directory}, nfs4::LOOKUP4args{entrance->name}, GetHandle(), limits);
    };
    auto reply = co_await caller_->Call(build, entrance->name);
    if (!reply) co_return std::unexpected(std::move(reply).error());
    co_return HandleLimits(std::get<2>(reply->results), std::get<3>(reply->results));
  }
  const auto build = [&] { return std::tuple(PutRootHandle(), GetHandle(), limits); };
  auto reply = co_await caller_->Call(build, url_.host);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return HandleLimits(std::get<1>(reply->results), std::get<2>(reply->results));
}

Result<void> Mount::HandleLimits(const nfs4::GETFH4res& root, const nfs4::GETATTR4res& attributes) {
  root_ = root.resok4().object;
  const auto limits = DecodeLimits(attributes.resok4().obj_attributes);
  if (!limits) return std::unexpected(MalformedAttributes(url_.host));
  path_ = *Below(url_.path, "");
  const auto choose = [](uint64_t most, uint32_t message, uint32_t ours) {
    return std::clamp(static_cast<uint32_t>(std::min<uint64_t>(most, PayloadWithin(message))), kSmallestPayload, ours);
  };
  sizes_.read = choose(limits->max_read, caller_->max_response(), LimitOr(url_.read_size, kLargestTransfer));
  sizes_.write = choose(limits->max_write, caller_->max_request(), LimitOr(url_.write_size, kLargestTransfer));
  sizes_.directory = choose(kLargestDirectory, caller_->max_response(), kLargestDirectory);
  if (limits->opens_or_delegates) delegations_->HandleOpensOrDelegates();
  if (limits->lease_seconds > 0) caller_->set_lease_time(std::chrono::seconds(limits->lease_seconds));
  return {};
}

Task<void> Mount::ReclaimFiles() {
  std::vector<std::weak_ptr<v4::OpenFile>> files;
  files.reserve(files_.size());
  const uint64_t epoch = caller_->epoch();
  for (v4::OpenFile* file : files_) files.push_back(file->weak_from_this());
  size_t lost = 0;
  for (const auto& each : files) {
    const auto file = each.lock();
    if (!file) continue;
    const Reclaimed reclaimed = co_await file->Reclaim();
    if (reclaimed == Reclaimed::kLater) co_return;
    if (reclaimed == Reclaimed::kNo) ++lost;
  }
  // Otherwise the server has restarted again, and everything is reclaimed once more.
  if (epoch == caller_->epoch()) delegations_->HandleRecovered();
  if (files.empty()) co_return;
  log::info("{}: the server has restarted; open files reclaimed: {}", url_.host, files.size() - lost);
  if (lost > 0) log::warn("{}: the server has restarted; open files lost, or their locks: {}", url_.host, lost);
}

std::vector<nfs4::stateid4> Mount::stateids() const {
  std::vector<nfs4::stateid4> stateids = delegations_->stateids();
  for (const v4::OpenFile* const each : files_) each->AddStateids(stateids);
  return stateids;
}

void Mount::HandleTested(const nfs4::stateid4& stateid, nfs4::nfsstat4 status) {
  if (delegations_->HandleLost(stateid)) return;
  // Others have been closed meanwhile, or have a later seqid.
  using enum nfs4::nfsstat4;
  if (status != NFS4ERR_EXPIRED && status != NFS4ERR_ADMIN_REVOKED && status != NFS4ERR_DELEG_REVOKED) return;
  for (v4::OpenFile* const each : files_) each->HandleRevoked(stateid);
}

// A file may be open several times, and each open has its own locks.
void Mount::HandleLockAvailable(const Handle& file) {
  std::vector<std::shared_ptr<v4::OpenFile>> open;
  for (v4::OpenFile* each : files_) {
    if (each->node().handle == file) open.push_back(each->shared_from_this());
  }
  for (const auto& each : open) each->locks().HandleAvailable();
}

// ---- names and attributes ----

Task<Result<void>> Mount::Ping() {
  auto reply = co_await client_.Call<nfs4::NFSPROC4_NULL>({});
  if (!reply) co_return std::unexpected(v4::ErrorOf(reply.error(), url_.host));
  co_return Result<void>();
}

Task<Result<Attributes>> Mount::GetAttributes(const Handle& object, std::string_view what) {
  if (auto known = delegations_->AttributesOf(object)) co_return *std::move(known);
  const Delegations::Query query(*delegations_);
  auto attributes = co_await v4::GetAttributes(*caller_, object, what);
  if (attributes) delegations_->Remember(query, object, *attributes);
  co_return attributes;
}

Task<Result<Node>> Mount::Lookup(const Handle& directory, std::string_view name) {
  using Advice = CompleteDirectories::Advice;
  Advice advice = directories_.AdviceOn(directory, name, loop_.Now());
  if (advice == Advice::kList) {
    co_await LearnNames(directory, name);
    advice = directories_.AdviceOn(directory, name, loop_.Now());
  }
  if (advice == Advice::kAbsent) co_return std::unexpected(v4::ErrorOf(nfs4::nfsstat4::NFS4ERR_NOENT, name));
  const Delegations::Query query(*delegations_);
  auto found = co_await v4::Lookup(*caller_, directory, name);
  if (found) delegations_->Remember(query, found->handle, found->attributes);
  co_return found;
}

// Lists the directory, unless it has many names. `what` names the call in errors, which the look-up that follows finds
// again.
Task<void> Mount::LearnNames(const Handle& directory, std::string_view what) {
  CompleteDirectories::Listing listing(directories_, directory, loop_.Now());
  auto names = co_await ListNames(*caller_, directory, what, std::min(sizes_.directory, kShortListing));
  if (!names) co_return;
  std::vector<std::string_view> views(names->names.begin(), names->names.end());
  listing.HandleListed(names->change, views, names->ends);
}

Task<Result<Listing>> Mount::ListFrom(const Handle& directory, std::string_view what, ListPosition from,
                                      ListContent content) {
  const Delegations::Query query(*delegations_);
  auto listing = co_await v4::ListFrom(*caller_, directory, what, from, content, sizes_.directory);
  if (!listing) co_return listing;
  for (const Entry& each : listing->entries) {
    if (each.handle && each.attributes) delegations_->Remember(query, *each.handle, *each.attributes);
  }
  co_return listing;
}

Task<Result<void>> Mount::SetAttributes(const Handle& object, std::string_view what, const NewAttributes& attributes) {
  delegations_->HandleNewAttributes(object, attributes);
  const auto send = [&](const NewAttributes& values) { return v4::SetAttributes(*caller_, object, what, values); };
  Result<void> set = co_await SendOwners(attributes, send);
  delegations_->HandleChange(object);
  co_return set;
}

// RFC 7530 §5.9: the client sends numbers first, as Linux does. If the server refuses them, it sends names.
template <class Values, class Send>
Task<Result<void>> Mount::SendOwners(const Values& values, Send send) {
  Result<void> sent;
  if (!sends_names_) {
    sent = co_await send(values);
    if (sent || sent.error().status != Status::kBadOwner) co_return sent;
  }
  const Values named = co_await WithNames(values);
  if (!sends_names_ && named == values) co_return sent;
  sent = co_await send(named);
  sends_names_ = sends_names_ || sent.has_value();
  co_return sent;
}

Task<Result<void>> Mount::SendAcl(const Handle& object, std::string_view what, const std::vector<Ace>& acl) {
  const auto send = [&](const std::vector<Ace>& values) { return v4::SetAcl(*caller_, object, what, values); };
  co_return co_await SendOwners(acl, send);
}

// Replaces numbers by names. A number without a name stays.
Task<NewAttributes> Mount::WithNames(NewAttributes attributes) {
  if (attributes.owner) co_await PutName(idmap::Kind::kUser, *attributes.owner);
  if (attributes.group) co_await PutName(idmap::Kind::kGroup, *attributes.group);
  co_return attributes;
}

Task<std::vector<Ace>> Mount::WithNames(std::vector<Ace> acl) {
  for (Ace& ace : acl) {
    const bool is_group = (ace.flags & nfs4::ACE4_IDENTIFIER_GROUP) != 0;
    const idmap::Kind kind = is_group ? idmap::Kind::kGroup : idmap::Kind::kUser;
    co_await PutName(kind, ace.who);
  }
  co_return acl;
}

Task<void> Mount::PutName(idmap::Kind kind, std::string& text) {
  const auto number = idmap::NumberIn(text);
  if (!owners_ || !number) co_return;
  idmap::Caller caller{.loop = &loop_};
  auto name = co_await owners_->TextOf(kind, *number, caller);
  if (name) text = *std::move(name);
}

Task<Result<void>> Mount::Link(const Handle& file, const Handle& directory, std::string_view name) {
  return ChangingNames(directory, Changing(file, v4::Link(*caller_, file, directory, name)));
}

Task<Result<void>> Mount::Changing(Handle object, Task<Result<void>> call) {
  delegations_->HandleChange(object);
  Result<void> changed = co_await std::move(call);
  delegations_->HandleChange(object);
  co_return changed;
}

template <class T>
Task<Result<T>> Mount::ChangingNames(Handle directory, Task<Result<T>> call) {
  Result<T> changed = co_await std::move(call);
  directories_.HandleChange(directory);
  co_return changed;
}

Task<Result<void>> Mount::Rename(const Handle& from_directory, std::string_view from, const Handle& to_directory,
                                 std::string_view to) {
  delegations_->HandleNameChange();
  Result<void> renamed = co_await v4::Rename(*caller_, from_directory, from, to_directory, to);
  delegations_->HandleNameChange();
  directories_.HandleChange(from_directory);
  directories_.HandleChange(to_directory);
  co_return renamed;
}

Task<Result<void>> Mount::Remove(const Handle& directory, std::string_view name) {
  delegations_->HandleNameChange();
  Result<void> removed = co_await v4::Remove(*caller_, directory, name);
  delegations_->HandleNameChange();
  directories_.HandleChange(directory);
  co_return removed;
}

// ---- files ----

Task<Result<std::unique_ptr<client::File>>> Mount::OpenFile(const Node& file, std::string_view what, Access access) {
  auto opened = std::make_shared<v4::OpenFile>(*this, file, what, access, NewOwner({}));
  PENSTOCK_CO_CHECK(co_await opened->Open());
  co_return std::make_unique<File>(std::move(opened));
}

Task<Result<std::unique_ptr<client::File>>> Mount::Reopen(const client::File& before, const Node& at) {
  const v4::OpenFile& old = dynamic_cast<const File&>(before).open();
  auto opened = std::make_shared<v4::OpenFile>(*this, at, old.name(), old.needed_access(), NewOwner({}));
  PENSTOCK_CO_CHECK(co_await opened->OpenAgain());
  co_return std::make_unique<File>(std::move(opened));
}

void Mount::HandleReopened(client::File& before, client::File& after) {
  const auto old = dynamic_cast<File&>(before).open().shared_from_this();
  v4::OpenFile& now = dynamic_cast<File&>(after).open();
  now.locks().HandleMoved(old->locks());
  const auto& attributes = old->attributes_at_open();
  if (attributes && &now.mount() != this) delegations_->HandleMoved(attributes->file_system);
  caller_->SpawnBackground(CloseQuietly(old));
}

Task<void> Mount::CompleteReclaim(const Handle& root) {
  if (!session_) co_return;
  const auto build = [&] { return std::tuple(nfs4::PUTFH4args{root}, nfs4::RECLAIM_COMPLETE4args{true}); };
  auto told = co_await caller_->Call(build, url_.host);
  if (!told) log::debug("{}", told.error().message);
}

Task<Result<std::unique_ptr<client::File>>> Mount::CreateFile(const Handle& directory, std::string_view name,
                                                              uint32_t mode, CreateMode how, Access access) {
  CompleteDirectories::Creation creation(directories_, directory, name, loop_.Now());
  PENSTOCK_CO_TRY(auto created, co_await v4::CreateFile(*this, creation, mode, how, access));
  co_return std::make_unique<File>(std::move(created));
}

}  // namespace

Task<Result<std::unique_ptr<ServerMount>>> OpenServer(Loop& loop, Workers& workers, const Url& url,
                                                      const Dialect& dialect, MountOptions options, Flavors& accepted,
                                                      const Entrance* entrance) {
  auto mount = std::make_unique<Mount>(loop, workers, url, dialect, options);
  if (IsCancelled(options.cancellation)) co_return std::unexpected(Closing(url.host));
  const Cancellation::Entry entry(options.cancellation, [at = mount.get()] { at->Abort(); });
  Result<void> ready = co_await mount->SetUp(accepted, entrance);
  if (ready) co_return mount;
  // Closed connections need one more turn of the loop before they are destroyed.
  co_await Sleep(loop, Duration::zero());
  co_return std::unexpected(WithTrouble(std::move(ready).error(), mount->trouble()));
}

}  // namespace penstock::client::v4
