// A fixture for tests of the operations: a server of NFSv4 over memory file systems, and a client that sends encoded
// COMPOUNDs to it.
//
//   class LookupTest : public Nfs4Test {};
//   TEST_F(LookupTest, ...) {
//     auto reply = Run(PutRoot(), LookUp("file"), GetFh());
//     EXPECT_EQ(reply.status, NFS4_OK);
//     const nfs_fh4 handle = reply.Skip(2).Next<GETFH4res>().resok4().object;
//   }
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "fs/memory/file_system.h"
#include "fs/test_files.h"
#include "idmap/mapper.h"
#include "nfs/test_server.h"
#include "nfs/v4/attributes/attribute_set.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/engine/program.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

// The anonymous stateid needs no open. It is valid unless another open denies the access (RFC 8881 §8.2.3).
inline constexpr stateid4 kAnonymous{};

// Records the calls that the server would make to its clients.
class RecordedCallbacks : public Callbacks {
 public:
  struct RecallOf {
    ClientId client;
    stateid4 delegation;
    FileHandle file;
    std::optional<RequestName> given_by;
  };
  struct LockNotice {
    ClientId client;
    FileHandle file;
    std::string owner;
  };
  struct CopyDone {
    ClientId client;
    FileHandle file;
    stateid4 copy;
    offload_info4 information;
  };

  ~RecordedCallbacks() override;

  void Probe(ClientId client) override;
  void ProbeSession(const SessionId& session, std::shared_ptr<rpc::BackChannel> channel) override;
  void Recall(ClientId client, const stateid4& delegation, const FileHandle& file,
              const std::optional<RequestName>& given_by) override;
  void RecallAny(const v4::RecallAny& recall) override { recall_anys.push_back(recall); }
  Task<HolderAttributes> GetAttributes(Loop*, ClientId, const FileHandle&, bool with_times) override;
  void NotifyLock(ClientId client, const FileHandle& file, ConstBytes owner) override;
  void NotifyHost(const v4::LockNotice& notice) override;
  void RecallSlots(ClientId, const SessionId& session, SlotId target_highest) override;
  void RecallCredits(const CreditRecall& recall) override;
  Task<> OffloadDone(ClientId client, FileHandle file, stateid4 copy, offload_info4 information) override;

  std::vector<ClientId> probes;
  std::vector<std::pair<SessionId, std::shared_ptr<rpc::BackChannel>>> session_probes;
  std::vector<RecallOf> recalls;
  std::vector<v4::RecallAny> recall_anys;
  std::vector<LockNotice> notices;
  std::function<void(const v4::LockNotice&)> on_host_notice;
  std::vector<CopyDone> copies;
  std::vector<std::pair<SessionId, SlotId>> slots;
  std::vector<CreditRecall> credits;
  HolderAttributes held;          // the answer of every holder of a delegation to CB_GETATTR
  std::vector<FileHandle> asked;  // the files of all CB_GETATTR so far
  bool asked_for_times = false;   // by the last CB_GETATTR
};

// An operation as a client sends it.
template <class Arguments>
struct Sent {
  nfs_opnum4 number;
  Arguments arguments;
};

template <class Arguments>
Sent<Arguments> Op(nfs_opnum4 number, Arguments arguments) {
  return {number, std::move(arguments)};
}
inline Sent<xdr::Void> Op(nfs_opnum4 number) { return {number, {}}; }

inline auto PutFh(const nfs_fh4& handle) { return Op(OP_PUTFH, PUTFH4args{handle}); }
inline auto PutRoot() { return Op(OP_PUTROOTFH); }
inline auto GetFh() { return Op(OP_GETFH); }
inline auto SaveFh() { return Op(OP_SAVEFH); }
inline auto RestoreFh() { return Op(OP_RESTOREFH); }
inline auto LookUp(std::string_view name) { return Op(OP_LOOKUP, LOOKUP4args{name}); }
inline auto LookUpParent() { return Op(OP_LOOKUPP); }
inline auto GetAttr(const AttributeSet& set) { return Op(OP_GETATTR, GETATTR4args{set.ToBitmap()}); }

// Builds a fattr4 and owns its values. Attributes are added in ascending order: Add(FATTR4_SIZE, uint64_t{7}).
class GivenValues {
 public:
  explicit GivenValues(BufferPool& pool) : encoder_(pool) {}
  template <class T>
  GivenValues& Add(uint32_t number, const T& value) {
    set_.Add(number);
    xdr::Encode(encoder_, value);
    return *this;
  }
  // The result is a view of this object.
  fattr4 Take() {
    message_ = encoder_.Finish();
    return {.attrmask = set_.ToBitmap(), .attr_vals = attrlist4(message_.stream.bytes())};
  }

 private:
  AttributeSet set_;
  xdr::Encoder encoder_;
  xdr::Message message_;
};

// The reply to a COMPOUND. Views in the results live as long as the server.
class CompoundReply {
 public:
  explicit CompoundReply(const Answer& answer)
      : answer_(&answer), decoder_(std::make_unique<xdr::Decoder>(answer.message)) {
    rpc::ReplyHeader header;
    COMPOUND4res_head head{};
    EXPECT_TRUE(answer.succeeded());
    EXPECT_TRUE(rpc::DecodeReplyHeader(*decoder_, header) && xdr::Decode(*decoder_, head));
    status = head.status;
    tag = head.tag;
    count = head.count;
  }

  // Decodes the next result.
  template <class T>
  T Next() {
    uint32_t number = 0;
    T result{};
    EXPECT_LT(taken_, count);
    EXPECT_TRUE(decoder_->U32(number) && xdr::Decode(*decoder_, result)) << xdr::ErrorName(decoder_->error());
    last_ = static_cast<nfs_opnum4>(number);
    ++taken_;
    EXPECT_TRUE(taken_ < count || decoder_->Finish());
    return result;
  }
  // Skips results that consist of a status, and expects NFS4_OK in each.
  CompoundReply& Skip(uint32_t results = 1) {
    for (uint32_t i = 0; i < results; ++i) EXPECT_EQ(Next<nfsstat4>(), NFS4_OK);
    return *this;
  }
  nfs_opnum4 last_number() const { return last_; }
  const Answer& answer() const { return *answer_; }

  nfsstat4 status{};
  std::string_view tag;
  uint32_t count = 0;

 private:
  const Answer* answer_;
  std::unique_ptr<xdr::Decoder> decoder_;
  uint32_t taken_ = 0;
  nfs_opnum4 last_{};
};

// A recovery store on a disk that may be full.
class TestRecoveryStore : public MemoryRecoveryStore {
 public:
  bool Record(const RecoveryRecord& client) override {
    if (before_record) before_record();
    return !full && !refuses_records && MemoryRecoveryStore::Record(client);
  }
  bool Remove(const std::string& owner) override { return !full && MemoryRecoveryStore::Remove(owner); }
  bool EndGrace() override { return !full && MemoryRecoveryStore::EndGrace(); }
  // The owners of the clients that could reclaim if the server restarted now.
  std::vector<std::string> Reclaimers();

  bool full = false;
  bool refuses_records = false;
  std::function<void()> before_record;  // on the thread that writes
};

// A server and the identity of its caller. A test makes the exports before the first call.
class Nfs4Server {
 public:
  static constexpr uint32_t kInstance = 7;

  // A server that starts with the replies in `kept` and `kept_streams` is the same server after a restart.
  explicit Nfs4Server(Settings chosen = {}, std::shared_ptr<ReplyStore> kept = std::make_shared<MemoryReplyStore>(),
                      uint32_t instance = kInstance, Files::Limits limits = {},
                      std::shared_ptr<StreamStore> kept_streams = std::make_shared<MemoryStreamStore>());
  ~Nfs4Server();

  // Adds an export. `faults` can make the operations on the last export fail.
  fs::memory::FileSystem& Export(std::string_view path, ExportOptions options = {.squash = Squash::kNone},
                                 const std::vector<ClientSpec>& clients = {});

  void SetIdentity(const rpc::SystemIdentity& identity);
  void SetUser(uint32_t uid);
  void SetNoIdentity();
  // `who` outlives the calls.
  void SetInitiator(const TestInitiator& who, rpc::GssService service);

  template <class... Arguments>
  rpc::Message Encode(uint32_t minor_version, const Sent<Arguments>&... operations) {
    return EncodeTagged(minor_version, "", operations...);
  }
  template <class... Arguments>
  rpc::Message EncodeTagged(uint32_t minor_version, std::string_view tag, const Sent<Arguments>&... operations) {
    xdr::Encoder encoder(buffers);
    EncodeHead(encoder, minor_version, tag, sizeof...(operations));
    ((encoder.U32(static_cast<uint32_t>(operations.number)), xdr::Encode(encoder, operations.arguments)), ...);
    return encoder.Finish();
  }

  const Answer& Ask(rpc::Message call);
  // Shows the server a call whose payloads are still on their way.
  void Preview(const rpc::Message& call);
  // Begins a call that may have to wait. The result refers to a flag that becomes true when the call ends.
  const bool& Begin(rpc::Message call);
  template <class... Arguments>
  CompoundReply Run(uint32_t minor_version, const Sent<Arguments>&... operations) {
    return CompoundReply(Ask(Encode(minor_version, operations...)));
  }

  // The services of the program, for tests that use them directly. No export may be added after this.
  Services GetServices();
  // Adds another program to the same dispatcher. The program outlives all calls.
  void Serve(rpc::Program& program);

  BufferPool buffers;
  std::shared_ptr<fs::TestFiles> faults;
  const Settings settings;
  Exports exports;
  Published<Namespace> names;
  idmap::Mapper owners;
  RecordedCallbacks callbacks;
  TestRecoveryStore* const recovery_store = new TestRecoveryStore;  // owned by `recovery`
  RecoveryQueue recovery{std::unique_ptr<RecoveryStore>(recovery_store)};
  StoppedClock clock;
  const std::shared_ptr<ReplyStore> reply_store;
  const std::shared_ptr<StreamStore> stream_store;
  ReplyWriter replies{*reply_store, *stream_store};
  State state;
  // Set these before the first call.
  CopySources* copy_sources = nullptr;
  rpc::SecurityFlavor* gss = nullptr;
  rpc::ReplyCache cache;
  rpc::Peer peer;
  uint32_t last_xid = 0;

 private:
  void Start();
  Services MakeServices();
  std::list<bool> ended_;
  // Encodes the header of the call and the head of the COMPOUND.
  void EncodeHead(xdr::Encoder& encoder, uint32_t minor_version, std::string_view tag, uint32_t operations);

  uint64_t instances_ = 0;
  rpc::ClientCredential credential_;
  std::optional<rpc::Credential> secured_;
  std::optional<Program> program_;
  std::optional<CalledBy> secured_program_;
  std::optional<rpc::Dispatcher> dispatcher_;
  std::deque<Answer> answers_;
};

// A client of minor version 1 or 2 with a session of one slot.
class SessionClient {
 public:
  SessionClient(Nfs4Server& server, std::string_view owner, uint32_t minor_version = 2, uint32_t session_flags = 0,
                const state_protect4_a& protection = state_protect4_a(SP4_NONE), const verifier4& verifier = {});

  // The next SEQUENCE of slot zero.
  Sent<SEQUENCE4args> Sequence(bool keep = false);
  // Sends the operations behind a SEQUENCE, and skips the result of the SEQUENCE.
  template <class... Arguments>
  CompoundReply Run(const Sent<Arguments>&... operations) {
    auto reply = server_.Run(minor_version_, Sequence(), operations...);
    EXPECT_EQ(reply.template Next<SEQUENCE4res>().sr_status(), NFS4_OK);
    return reply;
  }

  ClientId client() const { return client_; }
  const SessionId& session() const { return session_; }
  uint32_t minor_version() const { return minor_version_; }
  uint32_t sequence() const { return sequence_; }
  // The flags of the session that the server granted.
  uint32_t flags() const { return flags_; }

 private:
  Nfs4Server& server_;
  const uint32_t minor_version_;
  ClientId client_;
  SessionId session_{};
  uint32_t flags_ = 0;
  uint32_t sequence_ = 0;
};

// One export, "/", whose caller is root. Run0() sends a COMPOUND of minor version 0, and Run() sends one of minor
// version 2 in a session.
class Nfs4Test : public testing::Test {
 protected:
  explicit Nfs4Test(Settings settings = {}, const Files::Limits& limits = {});
  ~Nfs4Test() override;

  template <class... Arguments>
  CompoundReply Run0(const Sent<Arguments>&... operations) {
    return server.Run(0, operations...);
  }
  template <class... Arguments>
  CompoundReply Run(const Sent<Arguments>&... operations) {
    return Client().Run(operations...);
  }
  SessionClient& Client();

  // These change and read the file system directly, without a call to the server.
  nfs_fh4 MakeFile(std::string_view name, std::string_view contents = {}, uint32_t mode = 0644);
  nfs_fh4 MakeDirectory(std::string_view name, uint32_t mode = 0755);
  nfs_fh4 MakeSymlink(std::string_view name, std::string_view target);
  nfs_fh4 MakeFifo(std::string_view name);
  nfs_fh4 Root();
  nfs_fh4 HandleOf(const fs::Handle& object);
  std::string ContentsOf(std::string_view name);
  std::optional<fs::Attributes> AttributesOf(std::string_view name);
  static fs::RequestContext AsRoot();

  // A well-formed handle of a removed object.
  nfs_fh4 StaleHandle();

  Nfs4Server server;
  fs::memory::FileSystem& tree;

 private:
  std::optional<SessionClient> client_;
};

}  // namespace penstock::nfs::v4
