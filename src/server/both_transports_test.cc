// A session with connections over RDMA and over TCP to a whole server, whose loops share the connections
// (RFC 8881 §2.10.3.1, §18.34).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "client/connect.h"
#include "client/nfs4/operations.h"
#include "client/pieces.h"
#include "rpc/client.h"
#include "server/administration.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using client::Mount;
using client::Node;
using rpc::TransportKind;

// The protocol is that of the connection over which the session is made.
class BothTransportsTest : public ServerTest {
 protected:
  using Result = client::Result<void>;

  static Protocol OtherThan(Protocol protocol) {
    return protocol == Protocol::kRdma ? Protocol::kTcp : Protocol::kRdma;
  }
  client::Url UrlFor(Protocol of) const {
    client::Url url = Url("/tree");
    const Addresses& at = server_->addresses();
    url.protocol = of;
    url.port = (of == Protocol::kRdma ? at.rdma : at.tcp).front().port();
    url.uid = url.gid = 0;
    return url;
  }
};

// ---- requests that a test writes itself ----

// A client with one session and a connection over each transport.
class RawClient {
 public:
  RawClient(Loop& loop, uint32_t minor_version, std::unique_ptr<rpc::Channel> first,
            std::unique_ptr<rpc::Channel> second)
      : loop_(loop), minor_version_(minor_version), first_(std::move(first)), second_(std::move(second)) {}

  rpc::Channel& first() { return *first_; }
  rpc::Channel& second() { return *second_; }

  template <class... Arguments>
  Task<client::v4::CompoundReply<Arguments...>> Send(rpc::Channel& over, std::tuple<Arguments...> operations) {
    client::v4::CompoundReply<Arguments...> reply;
    const rpc::ClientCredential root(rpc::SystemIdentity{.machine = "client", .uid = 0, .gid = 0, .groups = {}});
    rpc::Client client(over, loop_.buffers(), rpc::RandomXid(), root);
    const auto encode = [&](xdr::Encoder& encoder) { client::v4::EncodeCompound(encoder, minor_version_, operations); };
    const auto decode = [&](xdr::Decoder& decoder) { return client::v4::DecodeCompound(decoder, reply); };
    auto message =
        co_await client.CallWith<nfs4::NFSPROC4_COMPOUND>(encode, client::v4::ShapeOf(operations, {}), decode);
    EXPECT_TRUE(message.has_value());
    if (message) reply.message = *std::move(message);
    co_return reply;
  }

  // Makes a session over the first connection.
  Task<> MakeSession() {
    nfs4::EXCHANGE_ID4args who;
    who.eia_clientowner.co_ownerid = AsBytes("owner");
    const std::tuple identify(std::move(who));
    const auto known = co_await Send(first(), identify);
    const nfs4::channel_attrs4 channel{.ca_headerpadsize = 0,
                                       .ca_maxrequestsize = 16 << 10,
                                       .ca_maxresponsesize = 16 << 10,
                                       .ca_maxresponsesize_cached = 8 << 10,
                                       .ca_maxoperations = 8,
                                       .ca_maxrequests = 4,
                                       .ca_rdma_ird = {}};
    nfs4::CREATE_SESSION4args wanted;
    wanted.csa_clientid = std::get<0>(known.results).eir_resok4().eir_clientid;
    wanted.csa_sequence = std::get<0>(known.results).eir_resok4().eir_sequenceid;
    wanted.csa_fore_chan_attrs = wanted.csa_back_chan_attrs = channel;
    const std::tuple create(std::move(wanted));
    const auto made = co_await Send(first(), create);
    session_ = std::get<0>(made.results).csr_resok4().csr_sessionid;
    const std::tuple complete(Sequence(1), nfs4::RECLAIM_COMPLETE4args());
    const auto completed = co_await Send(first(), complete);
    EXPECT_EQ(completed.status, nfs4::NFS4_OK);
  }
  // The request with this sequence id in the only slot, whose reply the server keeps.
  nfs4::SEQUENCE4args Sequence(uint32_t number) const {
    return {.sa_sessionid = session_,
            .sa_sequenceid = number,
            .sa_slotid = 0,
            .sa_highest_slotid = 0,
            .sa_cachethis = true};
  }
  const nfs4::sessionid4& session() const { return session_; }

 private:
  Loop& loop_;
  const uint32_t minor_version_;
  const std::unique_ptr<rpc::Channel> first_, second_;
  nfs4::sessionid4 session_{};
};

class RequestsOverBothTransportsTest : public BothTransportsTest {
 protected:
  using Use = std::function<Task<>(RawClient&)>;

  // Runs `use` with a client whose session was made over protocol().
  void WithClient(const Use& use) {
    StartServer();
    Loop loop;
    Workers workers(2);
    rdma::iwarp::Provider provider(loop);
    Spawn([](RequestsOverBothTransportsTest& test, Loop& l, Workers& w, rdma::Provider& p, const Use& f) -> Task<void> {
      auto first = co_await test.Open(l, w, p, protocol());
      auto second = co_await test.Open(l, w, p, OtherThan(protocol()));
      {
        RawClient client(l, version() == Version::k42 ? 2 : 1, std::move(first), std::move(second));
        co_await client.MakeSession();
        co_await f(client);
        co_await Sleep(l, Duration::zero());
      }
      co_await Sleep(l, Duration::zero());
      l.Finish();
    }(*this, loop, workers, provider, use));
    loop.Run();
    workers.Join();
  }
  Task<std::unique_ptr<rpc::Channel>> Open(Loop& loop, Workers& workers, rdma::Provider& provider, Protocol of) {
    client::Url url = UrlFor(of);
    url.inline_data = 512;  // the payloads of these tests move by RDMA Read and Write
    auto channel = co_await client::OpenChannel(loop, workers, url, &provider);
    EXPECT_TRUE(channel) << channel.error().message;
    co_return *std::move(channel);
  }
  // The payload of a READ or WRITE.
  static std::string Payload(char first) {
    std::string text(3001, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(first + i % 23);
    return text;
  }
};
INSTANTIATE_TEST_SUITE_P(All, RequestsOverBothTransportsTest,
                         testing::Combine(testing::Values(Protocol::kTcp, Protocol::kRdma),
                                          testing::Values(Version::k41, Version::k42)),
                         [](const auto& test) {
                           return NameOf(std::get<0>(test.param)) + NameOf(std::get<1>(test.param));
                         });

// RFC 8881 §2.10.3.1: a server with several transports must let a client bind connections of each one.
TEST_P(RequestsOverBothTransportsTest, AConnectionOfTheOtherTransportIsBound) {
  WithClient([](RawClient& client) -> Task<> {
    nfs4::BIND_CONN_TO_SESSION4args wanted;
    wanted.bctsa_sessid = client.session();
    wanted.bctsa_dir = nfs4::CDFC4_FORE;
    const std::tuple bind(wanted);
    const auto bound = co_await client.Send(client.second(), bind);
    EXPECT_EQ(bound.status, nfs4::NFS4_OK);
    EXPECT_EQ(std::get<0>(bound.results).bctsr_resok4().bctsr_dir, nfs4::CDFS4_FORE);
    EXPECT_FALSE(std::get<0>(bound.results).bctsr_resok4().bctsr_use_conn_in_rdma_mode);
    const std::tuple request(client.Sequence(2), client::v4::PutRootHandle());
    const auto answered = co_await client.Send(client.second(), request);
    EXPECT_EQ(answered.status, nfs4::NFS4_OK);
    // The session goes on over the first one as well.
    const std::tuple next(client.Sequence(3), client::v4::PutRootHandle());
    const auto again = co_await client.Send(client.first(), next);
    EXPECT_EQ(again.status, nfs4::NFS4_OK);
  });
}

// RFC 8881 §2.10.6.2: the kept reply must not depend on how the first connection has carried it.
TEST_P(RequestsOverBothTransportsTest, AKeptReplyWithAPayloadIsRepeatedOverTheOtherTransport) {
  const std::string before = Payload('a');
  WriteFile(tree() / "file", before);
  WithClient([&](RawClient& client) -> Task<> {
    const std::tuple request(client.Sequence(2), client::v4::PutRootHandle(), nfs4::LOOKUP4args{"tree"},
                             nfs4::LOOKUP4args{"file"}, nfs4::READ4args{.stateid = {}, .offset = 0, .count = 4096});
    const auto read = co_await client.Send(client.first(), request);
    EXPECT_EQ(read.status, nfs4::NFS4_OK);
    EXPECT_EQ(std::get<4>(read.results).resok4().data.text(), before);
    // Executed again, it would have another result.
    WriteFile(tree() / "file", Payload('b'));
    for (rpc::Channel* over : {&client.second(), &client.first(), &client.second()}) {
      const auto repeated = co_await client.Send(*over, request);
      EXPECT_EQ(repeated.status, nfs4::NFS4_OK);
      EXPECT_EQ(std::get<4>(repeated.results).resok4().data.text(), before);
    }
  });
}

TEST_P(RequestsOverBothTransportsTest, AWriteThatIsRepeatedOverTheOtherTransportIsExecutedOnce) {
  WriteFile(tree() / "file", "");
  const std::string payload = Payload('a');
  WithClient([&](RawClient& client) -> Task<> {
    const nfs4::WRITE4args write{.stateid = {},
                                 .offset = 0,
                                 .stable = nfs4::FILE_SYNC4,
                                 .data = xdr::Payload<xdr::kUnbounded>::Borrowed(AsBytes(payload))};
    const std::tuple request(client.Sequence(2), client::v4::PutRootHandle(), nfs4::LOOKUP4args{"tree"},
                             nfs4::LOOKUP4args{"file"}, write);
    const auto written = co_await client.Send(client.first(), request);
    EXPECT_EQ(written.status, nfs4::NFS4_OK);
    EXPECT_TRUE(ReadFile(tree() / "file") == payload);
    WriteFile(tree() / "file", "later");
    for (rpc::Channel* over : {&client.second(), &client.first()}) {
      const auto repeated = co_await client.Send(*over, request);
      EXPECT_EQ(repeated.status, nfs4::NFS4_OK) << "the server recognizes the request";
      EXPECT_EQ(std::get<4>(repeated.results).resok4().count, payload.size());
    }
    EXPECT_EQ(ReadFile(tree() / "file"), "later");
  });
}

// ---- mounts ----

class MountOverBothTransportsTest : public BothTransportsTest {
 protected:
  static constexpr uint32_t kPiece = 64 << 10;
  static constexpr unsigned kAtOnce = 16;

  Task<Result> MoveAll(client::File& file) {
    const auto write = [this, &file](uint64_t offset, uint32_t count) -> Task<Result> {
      PENSTOCK_CO_TRY(const auto written, co_await file.Write(offset, AsBytes(contents_).subspan(offset, count)));
      EXPECT_EQ(written.count, count);
      co_return Result();
    };
    PENSTOCK_CO_CHECK(co_await client::MovePieces(contents_.size(), kPiece, kAtOnce, write));
    PENSTOCK_CO_CHECK(co_await file.Commit());
    std::string got(contents_.size(), '\0');
    const auto read = [&file, &got](uint64_t offset, uint32_t count) -> Task<Result> {
      const Bytes piece = std::as_writable_bytes(std::span(got)).subspan(offset, count);
      PENSTOCK_CO_TRY(const auto read_now, co_await file.Read(offset, piece));
      EXPECT_EQ(read_now.count, count);
      co_return Result();
    };
    PENSTOCK_CO_CHECK(co_await client::MovePieces(got.size(), kPiece, kAtOnce, read));
    EXPECT_TRUE(got == contents_);
    co_return Result();
  }
  // Moves the file until the server has so many connections.
  Task<Result> MoveUntil(client::File& file, size_t connections) {
    for (int i = 0; i < 100 && Administration(*server_).Connections().size() < connections; ++i) {
      std::ranges::reverse(contents_);
      PENSTOCK_CO_CHECK(co_await MoveAll(file));
    }
    EXPECT_EQ(Administration(*server_).Connections().size(), connections);
    co_return Result();
  }
  std::multiset<TransportKind> Transports() const {
    std::multiset<TransportKind> transports;
    for (const auto& each : Administration(*server_).Connections()) transports.insert(each.transport);
    return transports;
  }
  static std::string Contents() {
    std::string contents(64 * kPiece + 3, '\0');
    for (size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<char>(i * 7 + i / 4096);
    return contents;
  }

  std::string contents_ = Contents();
};
INSTANTIATE_TEST_SUITE_P(All, MountOverBothTransportsTest,
                         testing::Combine(testing::Values(Protocol::kRdma),
                                          testing::Values(Version::k41, Version::k42)),
                         [](const auto& test) { return NameOf(std::get<1>(test.param)); });

TEST_P(MountOverBothTransportsTest, AFileMovesOverAllConnectionsOfItsSession) {
  nconnect_ = 4;
  both_transports_ = true;
  StartServer();
  const auto error = WithMount([this](Mount& mount, Workers&) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node top, co_await mount.Resolve(mount.path()));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_CHECK(co_await MoveUntil(*file, 4));
    const std::multiset<TransportKind> expected{TransportKind::kTcp, TransportKind::kRdma, TransportKind::kRdma,
                                                TransportKind::kRdma};
    EXPECT_EQ(Transports(), expected);
    ExpectAllConnectionsIn(1);
    co_return co_await file->Close();
  });
  EXPECT_FALSE(error) << error->message;
  EXPECT_TRUE(ReadFile(tree() / "file") == contents_);
}

TEST_P(MountOverBothTransportsTest, BothComeBackAfterARestart) {
  nconnect_ = 2;
  both_transports_ = true;
  StartServer();
  const auto error = WithMount([this](Mount& mount, Workers& workers) -> Task<Result> {
    PENSTOCK_CO_TRY(const Node top, co_await mount.Resolve(mount.path()));
    PENSTOCK_CO_TRY(const auto file, co_await mount.CreateFile(top.handle, "file", 0644));
    PENSTOCK_CO_CHECK(co_await MoveUntil(*file, 2));
    co_await Offload(mount.loop(), workers, [this] {
      RestartServer();
      return true;
    });
    PENSTOCK_CO_CHECK(co_await MoveUntil(*file, 2));
    const std::multiset<TransportKind> expected{TransportKind::kTcp, TransportKind::kRdma};
    EXPECT_EQ(Transports(), expected);
    PENSTOCK_CO_CHECK(co_await MoveAll(*file));
    co_return co_await file->Close();
  });
  EXPECT_FALSE(error) << error->message;
  EXPECT_TRUE(ReadFile(tree() / "file") == contents_);
}

}  // namespace
}  // namespace penstock::server
