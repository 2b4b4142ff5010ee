// The sessions of 2004 under RPCSEC_GSS: their operations, retries and chains, with every service.
#include <gmock/gmock.h>

#include <vector>

#include "protocol/nfs4.h"
#include "protocol/nfs4_compound.h"
#include "protocol/nfs4_sess01.h"
#include "server/kerberos_test.h"
#include "xdr/flatten.h"

namespace penstock::server {
namespace {

using namespace nfs4;  // NOLINT: the protocol's own names

class KerberosSess01Test : public KerberosServerTest {
 protected:
  using Octets = std::vector<std::byte>;

  KerberosSess01Test() {
    TestOptions options = ServerOptions(Environment("KRB5_KTNAME"));
    options.nfs4.bound_sessions = true;
    auto made = MakeServer(options);
    EXPECT_TRUE(made) << made.error().message;
    server_ = *std::move(made);
    server_->Start();
  }
  ~KerberosSess01Test() override { server_->Stop(); }

  // Builds the arguments of a COMPOUND of minor version 1.
  class Operations {
   public:
    explicit Operations(BufferPool& buffers) : encoder_(buffers) {}
    template <class Arguments>
    Operations& Add(nfs_opnum4 number, const Arguments& arguments) {
      ++count_;
      encoder_.U32(static_cast<uint32_t>(number));
      xdr::Encode(encoder_, arguments);
      return *this;
    }
    Operations& Add(nfs_opnum4 number) { return Add(number, xdr::Void()); }
    Operations& Control(uint32_t channel, uint32_t stream, ChainFlags flag = NOCHAIN) {
      return Add(OP_OPERATION_CONTROL,
                 OPERATIONCONTROL4args{.channelid = channel, .streamid = stream, .chainflags = flag});
    }
    Operations& LookUp(std::string_view name) { return Add(OP_LOOKUP, LOOKUP4args{name}); }
    xdr::Message Finish(BufferPool& buffers) {
      xdr::Encoder whole(buffers);
      xdr::Encode(whole, COMPOUND4args_head{"", 1, count_});
      const xdr::Message operations = encoder_.Finish();
      const Slice flat = xdr::Unreduce(buffers, operations);
      for (size_t at = 0; at < flat.size(); at += 4) whole.U32(LoadBig<uint32_t>(flat.data() + at));
      return whole.Finish();
    }

   private:
    xdr::Encoder encoder_;
    uint32_t count_ = 0;
  };

  // The status of a COMPOUND, and its results behind the head.
  struct Ended {
    nfsstat4 status = NFS4ERR_SERVERFAULT;
    xdr::Message message{};
    // The result of the first operation.
    template <class T>
    T First() const {
      xdr::Decoder decoder(message);
      COMPOUND4res_head head;
      uint32_t number = 0;
      T result{};
      EXPECT_TRUE(xdr::Decode(decoder, head) && decoder.U32(number) && xdr::Decode(decoder, result));
      return result;
    }
  };

  Task<Ended> Send(rpc::Channel& channel, Initiator& client, GssService service, Xid xid, Operations& operations) {
    const uint32_t number = ++sequence_;
    rpc::Message call = client.Call(xid, kCompound, service, number, operations.Finish(loop_.buffers()));
    const auto reply = co_await channel.Call(std::move(call), rpc::ReplyShape());
    EXPECT_TRUE(reply);
    if (!reply) co_return Ended();
    auto opened = client.Open(*reply, service, number);
    EXPECT_TRUE(opened);
    if (!opened) co_return Ended();
    xdr::Decoder decoder(*opened);
    COMPOUND4res_head head;
    EXPECT_TRUE(xdr::Decode(decoder, head));
    co_return Ended{head.status, *std::move(opened)};
  }
  Task<Ended> Send(rpc::Channel& channel, Initiator& client, GssService service, Operations& operations) {
    return Send(channel, client, service, Xid(1000 + ++xids_), operations);
  }
  // Sends a call without waiting for it.
  void Begin(rpc::Channel& channel, Initiator& client, GssService service, Operations& operations,
             OneShot<nfsstat4>& status) {
    Spawn([](Task<Ended> sent, OneShot<nfsstat4>& out) -> Task<void> {
      const Ended ended = co_await std::move(sent);
      out.Set(nfsstat4{ended.status});
    }(Send(channel, client, service, operations), status));
  }

  Task<uint64_t> Create(rpc::Channel& channel, Initiator& client, GssService service, std::string_view owner) {
    SESSIONCREATE4args arguments{.clientid = {}, .persist = true, .totalrequests = 8};
    arguments.clientid.id = AsBytes(owner);
    Operations operations(loop_.buffers());
    operations.Add(OP_SESSION_CREATE, arguments);
    const Ended ended = co_await Send(channel, client, service, operations);
    EXPECT_EQ(ended.status, NFS4_OK);
    if (ended.status != NFS4_OK) co_return 0;
    co_return ended.First<SESSIONCREATE4res>().resok4().sessionid;
  }
  // Returns the channelid, or nothing if the server has refused.
  Task<std::optional<uint32_t>> Bind(rpc::Channel& channel, Initiator& client, GssService service, uint64_t session,
                                     nfsstat4 expected = NFS4_OK) {
    Operations operations(loop_.buffers());
    operations.Add(OP_SESSION_BIND, SESSIONBIND4args{.sessionid = session,
                                                     .channel = OPERATION,
                                                     .mode = STREAM,
                                                     .maxrequestsize = 0,
                                                     .maxresponsesize = 0,
                                                     .headerpadsize = 0,
                                                     .maxrequests = 8,
                                                     .maxrdmareads = 0,
                                                     .transportattrs = {}});
    const Ended ended = co_await Send(channel, client, service, operations);
    EXPECT_EQ(ended.status, expected);
    if (ended.status != NFS4_OK) co_return std::nullopt;
    co_return ended.First<SESSIONBIND4res>().resok4().channelid;
  }
  Task<std::unique_ptr<rpc::Channel>> Connect() {
    auto channel = co_await rpc::tcp::Channel::Connect(loop_, server_->addresses().tcp.front());
    EXPECT_TRUE(channel);
    co_return *std::move(channel);
  }

  static constexpr rpc::gss::testing::Target kCompound{
      .program = NFS4_PROGRAM, .version = NFS_V4, .procedure = NFSPROC4_COMPOUND::kNumber};
  std::unique_ptr<Server> server_;
  uint32_t xids_ = 0;
};

TEST_F(KerberosSess01Test, ExecutesARequestOnceUnderEveryService) {
  AsAlice(*server_, [&](rpc::Channel& channel, Initiator& alice, KerberosInitiator&) -> Task<void> {
    for (const GssService service : {GssService::kNone, GssService::kIntegrity, GssService::kPrivacy}) {
      const std::string name = "service" + std::to_string(static_cast<int>(service));
      const auto first = co_await Connect();
      const uint64_t session = co_await Create(*first, alice, service, name);
      const std::optional<uint32_t> bound = co_await Bind(*first, alice, service, session);
      if (!bound) co_return;
      const CREATE4args make{.objtype = createtype4(NF4DIR, xdr::Void()), .objname = name, .createattrs = {}};
      Operations request(loop_.buffers());
      request.Control(*bound, 0).Add(OP_PUTROOTFH).LookUp("tree").Add(OP_CREATE, make);
      const Ended done = co_await Send(*first, alice, service, Xid(5), request);
      EXPECT_EQ(done.status, NFS4_OK);
      EXPECT_TRUE(std::filesystem::is_directory(tree() / name));

      // The reply is lost. The client sends the request again over another connection, with another sequence number of
      // its context.
      const auto second = co_await Connect();
      co_await Bind(*second, alice, service, session);
      Operations again(loop_.buffers());
      again.Control(*bound, 0).Add(OP_PUTROOTFH).LookUp("tree").Add(OP_CREATE, make);
      const Ended repeated = co_await Send(*second, alice, service, Xid(5), again);
      EXPECT_EQ(repeated.status, NFS4_OK) << "a second execution would find the directory";
      EXPECT_TRUE(std::ranges::equal(repeated.message.stream.bytes(), done.message.stream.bytes()));
    }
    (void)channel;
  });
}

TEST_F(KerberosSess01Test, NoOtherPrincipalBindsTheSession) {
  AsAlice(*server_, [&](rpc::Channel& channel, Initiator& alice, KerberosInitiator&) -> Task<void> {
    const uint64_t session = co_await Create(channel, alice, GssService::kIntegrity, "owner");
    KerberosInitiator mechanism(Environment("TEST_CACHE_BOB"));
    Initiator bob(mechanism, loop_.buffers());
    const auto other = co_await Connect();
    const bool established = co_await Establish(*other, bob);
    EXPECT_TRUE(established);
    co_await Bind(*other, bob, GssService::kIntegrity, session, NFS4ERR_SESS01_BADSESSION);
    const auto bound = co_await Bind(*other, alice, GssService::kIntegrity, session);
    EXPECT_TRUE(bound) << "the refusal has changed nothing";
  });
}

// The server unseals the long request on another thread. The short one comes under another context, so that nothing
// but the order of the connection holds it back.
TEST_F(KerberosSess01Test, AChainIsJudgedInTheOrderOfArrivalAlsoIfItsBeginningIsUnsealedLate) {
  AsAlice(*server_, [&](rpc::Channel& channel, Initiator& alice, KerberosInitiator&) -> Task<void> {
    KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"));
    Initiator second(mechanism, loop_.buffers());
    const bool established = co_await Establish(channel, second);
    EXPECT_TRUE(established);
    const uint64_t session = co_await Create(channel, alice, GssService::kPrivacy, "owner");
    const std::optional<uint32_t> bound = co_await Bind(channel, alice, GssService::kPrivacy, session);
    if (!bound) co_return;
    const std::string data(500'000, 'y');
    for (int i = 0; i < 10; ++i) {
      Operations begin(loop_.buffers()), end(loop_.buffers());
      begin.Control(*bound, 0, CHAINBEGIN).Add(OP_PUTROOTFH).LookUp("tree").LookUp("file");
      begin.Add(OP_WRITE, WRITE4args{{}, 0, UNSTABLE4, xdr::Payload<>::Borrowed(data)});
      end.Control(*bound, 1, CHAINEND).Add(OP_GETFH);
      OneShot<nfsstat4> first_status, second_status;
      Begin(channel, alice, GssService::kPrivacy, begin, first_status);
      Begin(channel, second, GssService::kPrivacy, end, second_status);
      const nfsstat4 written = co_await first_status;
      const nfsstat4 ended = co_await second_status;
      EXPECT_EQ(written, NFS4_OK);
      EXPECT_EQ(ended, NFS4_OK);
    }
  });
}

}  // namespace
}  // namespace penstock::server
