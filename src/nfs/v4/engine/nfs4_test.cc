// The header does not contain these functions, since they take longer to compile than most tests.
#include "nfs/v4/engine/nfs4_test.h"
#include "nfs/v4/engine/compound_head.h"

#include <cassert>

namespace penstock::nfs::v4 {

RecordedCallbacks::~RecordedCallbacks() = default;

void RecordedCallbacks::Probe(ClientId client) { probes.push_back(client); }

void RecordedCallbacks::ProbeSession(const SessionId& session, std::shared_ptr<rpc::BackChannel> channel) {
  session_probes.emplace_back(session, std::move(channel));
}

void RecordedCallbacks::Recall(ClientId client, const stateid4& delegation, const FileHandle& file,
                               const std::optional<RequestName>& given_by) {
  recalls.push_back({client, delegation, file, given_by});
}

Task<HolderAttributes> RecordedCallbacks::GetAttributes(Loop*, ClientId, const FileHandle& file, bool with_times) {
  asked_for_times = with_times;
  asked.push_back(file);
  co_return held;
}

void RecordedCallbacks::NotifyLock(ClientId client, const FileHandle& file, ConstBytes owner) {
  notices.push_back({client, file, std::string(AsText(owner))});
}

void RecordedCallbacks::NotifyHost(const v4::LockNotice& notice) {
  if (on_host_notice) on_host_notice(notice);
}

void RecordedCallbacks::RecallSlots(ClientId, const SessionId& session, SlotId target_highest) {
  slots.emplace_back(session, target_highest);
}

void RecordedCallbacks::RecallCredits(const CreditRecall& recall) { credits.push_back(recall); }

Task<> RecordedCallbacks::OffloadDone(ClientId client, FileHandle file, stateid4 copy, offload_info4 information) {
  copies.push_back({client, file, copy, information});
  co_return;
}

std::vector<std::string> TestRecoveryStore::Reclaimers() {
  std::vector<std::string> owners;
  const auto begun = Begin({}, {});
  for (const RecoveryRecord& client : begun->clients) owners.push_back(client.owner);
  return owners;
}

Nfs4Server::Nfs4Server(Settings chosen, std::shared_ptr<ReplyStore> kept, uint32_t instance, Files::Limits limits,
                       std::shared_ptr<StreamStore> kept_streams)
    : settings(std::move(chosen)),
      reply_store(std::move(kept)),
      stream_store(std::move(kept_streams)),
      state({.settings = settings,
             .instance = instance,
             .secret = SipKey{1, 2},
             .limits = (limits.lease = settings.lease, limits),
             .dead_sessions = DeadSessions(reply_store->Load(), settings.lease, clock.now),
             .bound_sessions = stream_store->Load(),
             .bound_dialect = &DialectOfBoundSessions(),
             .now = clock.now}) {
  state.SendBy(callbacks);
  peer.address = {asio::ip::make_address("192.0.2.1"), 700};
  peer.buffers = &buffers;
  peer.connection = 1;
  SetIdentity({.machine = "client", .uid = 0, .gid = 0, .groups = {}});
  dispatcher_.emplace(cache, clock);
}

Nfs4Server::~Nfs4Server() = default;

fs::memory::FileSystem& Nfs4Server::Export(std::string_view path, ExportOptions options,
                                           const std::vector<ClientSpec>& clients) {
  auto ticks = std::make_shared<int64_t>(1'000'000);
  auto file_system = std::make_shared<fs::memory::FileSystem>(
      fs::memory::Options{.instance = ++instances_, .clock = [ticks] { return fs::Timestamp{++*ticks, 5}; }});
  faults = std::make_shared<fs::TestFiles>(file_system);
  EXPECT_TRUE(exports.Add(path, faults, std::move(options), clients));
  return *file_system;
}

void Nfs4Server::SetIdentity(const rpc::SystemIdentity& identity) {
  credential_ = rpc::ClientCredential(identity);
  secured_.reset();
}

void Nfs4Server::SetUser(uint32_t uid) { SetIdentity({.machine = "client", .uid = uid, .gid = uid, .groups = {}}); }

void Nfs4Server::SetNoIdentity() {
  credential_ = rpc::ClientCredential();
  secured_.reset();
}

void Nfs4Server::SetInitiator(const TestInitiator& who, rpc::GssService service) { secured_ = who.With(service); }

void Nfs4Server::EncodeHead(xdr::Encoder& encoder, uint32_t minor_version, std::string_view tag, uint32_t operations) {
  rpc::EncodeCallHeader(encoder, {rpc::Xid(++last_xid), NFS4_PROGRAM, NFS_V4, 1, credential_.auth(), {}});
  xdr::Encode(encoder, COMPOUND4args_head{tag, minor_version, operations});
}

const Answer& Nfs4Server::Ask(rpc::Message call) {
  if (!program_) Start();
  Answer& answer =
      answers_.emplace_back(Answer{.message = Now(dispatcher_->HandleCall(std::move(call), peer)), .header = {}});
  if (answer.message.empty()) return answer;
  xdr::Decoder decoder(answer.message);
  EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, answer.header));
  answer.results_at = decoder.reduced_position();
  return answer;
}

void Nfs4Server::Preview(const rpc::Message& call) {
  if (!program_) Start();
  dispatcher_->PreviewCall(call, peer);
}

const bool& Nfs4Server::Begin(rpc::Message call) {
  if (!program_) Start();
  bool& ended = ended_.emplace_back(false);
  Spawn([](Task<rpc::Message> task, bool& out) -> Task<> {
    co_await std::move(task);
    out = true;
  }(dispatcher_->HandleCall(std::move(call), peer), ended));
  return ended;
}

Services Nfs4Server::GetServices() {
  if (!program_) Start();
  return MakeServices();
}

void Nfs4Server::Serve(rpc::Program& program) { dispatcher_->Add(program); }

void Nfs4Server::Start() {
  auto made = Namespace::Make(exports, {1000, 0});
  assert(made);
  names.Set(*std::move(made));
  program_.emplace(MakeServices());
  dispatcher_->Add(secured_program_.emplace(*program_, secured_));
}

Services Nfs4Server::MakeServices() {
  return {.names = names,
          .settings = settings,
          .owners = owners,
          .state = state,
          .callbacks = callbacks,
          .recovery = recovery,
          .clock = clock,
          .copy_sources = copy_sources,
          .gss = gss,
          .replies = &replies,
          .time_of_day = [] { return fs::Timestamp{2'000'000, 0}; }};  // later than the clocks of the file systems
}

SessionClient::SessionClient(Nfs4Server& server, std::string_view owner, uint32_t minor_version, uint32_t session_flags,
                             const state_protect4_a& protection, const verifier4& verifier)
    : server_(server), minor_version_(minor_version) {
  const EXCHANGE_ID4args who{
      .eia_clientowner = {.co_verifier = verifier, .co_ownerid = decltype(client_owner4::co_ownerid)(AsBytes(owner))},
      .eia_flags = 0,
      .eia_state_protect = protection,
      .eia_client_impl_id = {}};
  const auto known = server.Run(minor_version, Op(OP_EXCHANGE_ID, who)).Next<EXCHANGE_ID4res>();
  EXPECT_EQ(known.eir_status(), NFS4_OK);
  client_ = ClientId(known.eir_resok4().eir_clientid);
  const channel_attrs4 channel{.ca_headerpadsize = 0,
                               .ca_maxrequestsize = 1 << 20,
                               .ca_maxresponsesize = 1 << 20,
                               .ca_maxresponsesize_cached = 4096,
                               .ca_maxoperations = 32,
                               .ca_maxrequests = 4,
                               .ca_rdma_ird = {}};
  const CREATE_SESSION4args wanted{.csa_clientid = client_.value(),
                                   .csa_sequence = known.eir_resok4().eir_sequenceid,
                                   .csa_flags = session_flags,
                                   .csa_fore_chan_attrs = channel,
                                   .csa_back_chan_attrs = channel,
                                   .csa_cb_program = 0x40000000,
                                   .csa_sec_parms = {}};
  const auto made = server.Run(minor_version, Op(OP_CREATE_SESSION, wanted)).Next<CREATE_SESSION4res>();
  EXPECT_EQ(made.csr_status(), NFS4_OK);
  session_ = made.csr_resok4().csr_sessionid;
  flags_ = made.csr_resok4().csr_flags;
  EXPECT_EQ(Run(Op(OP_RECLAIM_COMPLETE, RECLAIM_COMPLETE4args{false})).status, NFS4_OK);
}

Sent<SEQUENCE4args> SessionClient::Sequence(bool keep) {
  return Op(OP_SEQUENCE, SEQUENCE4args{.sa_sessionid = session_,
                                       .sa_sequenceid = ++sequence_,
                                       .sa_slotid = 0,
                                       .sa_highest_slotid = 0,
                                       .sa_cachethis = keep});
}

Nfs4Test::Nfs4Test(Settings settings, const Files::Limits& limits)
    : server(std::move(settings), std::make_shared<MemoryReplyStore>(), Nfs4Server::kInstance, limits),
      tree(server.Export("/")) {}

Nfs4Test::~Nfs4Test() = default;

SessionClient& Nfs4Test::Client() {
  if (!client_) client_.emplace(server, "client");
  return *client_;
}

nfs_fh4 Nfs4Test::MakeFile(std::string_view name, std::string_view contents, uint32_t mode) {
  fs::CreateHow how;
  how.mode = fs::CreateMode::kGuarded;
  how.attributes.mode = mode;
  const auto made = Now(tree.Create(AsRoot(), tree.Root(), name, how));
  EXPECT_TRUE(made.result);
  if (!contents.empty()) {
    const Data data = Slice::Borrowed(AsBytes(contents));
    EXPECT_TRUE(Now(tree.Write(AsRoot(), made.result->handle, 0, data, fs::Stability::kFileSync)).result);
  }
  return HandleOf(made.result->handle);
}

nfs_fh4 Nfs4Test::MakeDirectory(std::string_view name, uint32_t mode) {
  fs::NewAttributes attributes;
  attributes.mode = mode;
  return HandleOf(Now(tree.MakeDirectory(AsRoot(), tree.Root(), name, attributes)).result->handle);
}

nfs_fh4 Nfs4Test::MakeSymlink(std::string_view name, std::string_view target) {
  return HandleOf(Now(tree.MakeSymlink(AsRoot(), tree.Root(), name, target, {})).result->handle);
}

nfs_fh4 Nfs4Test::MakeFifo(std::string_view name) {
  return HandleOf(
      Now(tree.MakeNode(AsRoot(), tree.Root(), name, {.type = fs::FileType::kFifo, .device = {}}, {})).result->handle);
}

nfs_fh4 Nfs4Test::Root() { return HandleOf(tree.Root()); }

nfs_fh4 Nfs4Test::HandleOf(const fs::Handle& object) {
  return ToFileHandle({server.exports.table().Resolve("/").found->id(), object});
}

std::string Nfs4Test::ContentsOf(std::string_view name) {
  const auto found = Now(tree.Lookup(AsRoot(), tree.Root(), name));
  const auto read = Now(tree.Read(AsRoot(), found.result->handle, 0, 1 << 20));
  return std::string(AsText(read.result->data.bytes()));
}

std::optional<fs::Attributes> Nfs4Test::AttributesOf(std::string_view name) {
  const auto found = Now(tree.Lookup(AsRoot(), tree.Root(), name));
  if (!found.result) return std::nullopt;
  return found.result->attributes;
}

fs::RequestContext Nfs4Test::AsRoot() { return {.credentials = {.uid = 0, .gid = 0, .groups = {}}}; }

nfs_fh4 Nfs4Test::StaleHandle() {
  const nfs_fh4 handle = MakeFile("to be removed");
  EXPECT_TRUE(Now(tree.Remove(AsRoot(), tree.Root(), "to be removed")).result);
  return handle;
}

}  // namespace penstock::nfs::v4
