// The fixture for tests of the lock manager: a server of NFSv4 and NLM, and hosts whose lock managers the test plays.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "nfs/nlm/lock_manager.h"
#include "nfs/nlm/program.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/stateful_test.h"
#include "protocol/nlm.h"
#include "protocol/nlm4.h"
#include "protocol/nsm.h"
#include "rdma/sim/world.h"

namespace penstock::nfs::nlm {

using namespace nlm4;  // NOLINT: the protocol's own names, RFC 1813 appendix II

// A call that the server has sent to a host, with the arguments that tests look at.
struct SentCall {
  HostCall to;
  std::string caller_name{};
  std::string fh{};
  std::string oh{};
  std::string cookie{};  // of NLM; the private data of SM_MON
  std::string name{};    // SM_NOTIFY, SM_MON, SM_UNMON
  int32_t process = 0;
  int32_t state = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool exclusive = false;
  uint32_t status = 0;  // of results
};

// Hosts that answer as the test says.
class TestHosts : public HostCalls {
 public:
  Task<Outcome> Call(HostCall call, std::function<void(xdr::Encoder&)> write,
                     std::function<bool(xdr::Decoder&)> read) override;

  std::vector<SentCall> calls;
  Outcome outcome = Outcome::kAnswered;
  nlm4_stats status = NLM4_GRANTED;
  nsm::sm_res monitoring = nsm::STAT_SUCC;  // the answer to SM_MON
  // While true, calls wait for Release() or for their cancellation.
  bool hold = false;
  void Release();
  // The same for those that wait now.
  void ReleaseHeld();
  size_t held() const { return held_.size(); }

 private:
  std::vector<OneShot<>*> held_;
  BufferPool buffers_;
};

// Root of the host "alice" at 192.0.2.1 calls, unless a test says otherwise.
class NlmTest : public v4::StatefulTest {
 protected:
  explicit NlmTest(const WaitingLocks::Settings& settings = {});
  ~NlmTest() override;

  struct Host {
    std::string name;
    std::string address;
  };
  // A lock of the file by a process of a host.
  struct Spec {
    uint64_t offset = 0;
    uint64_t length = 10;
    bool exclusive = true;
    int32_t process = 1;
  };

  template <class Procedure>
  typename Procedure::Results Call(const Host& by, const typename Procedure::Arguments& arguments) {
    const Answer& answer = Ask<Procedure>(by, arguments);
    EXPECT_TRUE(answer.succeeded());
    xdr::Decoder decoder(answer.message);
    rpc::ReplyHeader header;
    typename Procedure::Results results{};
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header) && xdr::Decode(decoder, results) && decoder.Finish());
    return results;
  }
  template <class Procedure>
  const Answer& Ask(const Host& by, const typename Procedure::Arguments& arguments) {
    return server.Ask(MessageOf<Procedure>(by, arguments));
  }
  // Begins a call that may have to wait: see Nfs4Server::Begin().
  template <class Procedure>
  const bool& Begin(const Host& by, const typename Procedure::Arguments& arguments) {
    return server.Begin(MessageOf<Procedure>(by, arguments));
  }
  template <class Procedure>
  rpc::Message MessageOf(const Host& by, const typename Procedure::Arguments& arguments) {
    xdr::Encoder encoder(server.buffers);
    const rpc::ClientCredential caller({.machine = by.name, .uid = uid, .gid = uid, .groups = {}});
    const rpc::OpaqueAuth auth = as == rpc::AuthFlavor::AUTH_NONE ? rpc::OpaqueAuth() : caller.auth();
    rpc::EncodeCallHeader(
        encoder, {rpc::Xid(++server.last_xid), Procedure::kProgram, Procedure::kVersion, Procedure::kNumber, auth, {}});
    xdr::Encode(encoder, arguments);
    server.peer.address = {asio::ip::make_address(by.address), port};
    return encoder.Finish();
  }

  nlm4_lock LockOf(const Host& by, const Spec& spec) const {
    return {.caller_name = by.name,
            .fh = file.bytes(),
            .oh = AsBytes("owner"),
            .svid = spec.process,
            .l_offset = spec.offset,
            .l_len = spec.length};
  }
  nlm4_stats Lock(const Host& by, const Spec& spec, bool block = false, bool reclaim = false) {
    return Call<NLMPROC4_LOCK>(by, {.cookie = AsBytes("cookie"),
                                    .block = block,
                                    .exclusive = spec.exclusive,
                                    .alock = LockOf(by, spec),
                                    .reclaim = reclaim,
                                    .state = 1})
        .stat;
  }
  const bool& BeginLock(const Host& by, const Spec& spec, bool block = false) {
    return Begin<NLMPROC4_LOCK>(
        by, {.cookie = {}, .block = block, .exclusive = spec.exclusive, .alock = LockOf(by, spec), .state = 1});
  }
  nlm4_stats Unlock(const Host& by, const Spec& spec) {
    return Call<NLMPROC4_UNLOCK>(by, {.cookie = AsBytes("cookie"), .alock = LockOf(by, spec)}).stat;
  }
  nlm4_stats Cancel(const Host& by, const Spec& spec) {
    return Call<NLMPROC4_CANCEL>(by,
                                 {.cookie = {}, .block = true, .exclusive = spec.exclusive, .alock = LockOf(by, spec)})
        .stat;
  }
  nlm4_testrply Test(const Host& by, const Spec& spec) {
    return Call<NLMPROC4_TEST>(by, {.cookie = {}, .exclusive = spec.exclusive, .alock = LockOf(by, spec)}).test_stat;
  }
  nlm4_stats SetShare(const Host& by, std::string_view owner, fsh4_access access, fsh4_mode deny,
                      bool reclaim = false) {
    return Call<NLMPROC4_SHARE>(by, {.cookie = {},
                                     .share = {.caller_name = by.name,
                                               .fh = file.bytes(),
                                               .oh = AsBytes(owner),
                                               .mode = deny,
                                               .access = access},
                                     .reclaim = reclaim})
        .stat;
  }
  nlm4_stats RemoveShare(const Host& by, std::string_view owner) {
    return Call<NLMPROC4_UNSHARE>(
               by,
               {.cookie = {},
                .share = {.caller_name = by.name, .fh = file.bytes(), .oh = AsBytes(owner), .mode = {}, .access = {}},
                .reclaim = false})
        .stat;
  }
  // The version 4 client's locks.
  nfs4::nfsstat4 Lock4(const nfs4::stateid4& open, uint64_t offset, uint64_t length,
                       nfs4::nfs_lock_type4 type = nfs4::WRITE_LT) {
    return Run(v4::PutFh(file), v4::Locking(type, offset, length, v4::NewLocker(Client().client(), open, "locker")))
        .status;
  }

  void Pass(Duration time) {
    server.clock.now += time;
    world.RunFor(time);
  }

  const Host alice{"alice", "192.0.2.1"}, bob{"bob", "192.0.2.2"}, carol{"carol", "192.0.2.3"};
  const nfs4::nfs_fh4 file = MakeFile("file", "data", 0666);
  uint32_t uid = 0;
  uint16_t port = 700;
  rpc::AuthFlavor as = rpc::AuthFlavor::AUTH_SYS;
  rdma::sim::World world{1};
  TestHosts hosts;
  v4::HostLocks locks{server.GetServices()};
  LocalMonitor local_monitor{hosts, world};
  LockManager manager;
  Program program4{manager, 4};
  Program program3{manager, 3};
  Program program1{manager, 1};
};

}  // namespace penstock::nfs::nlm
