// Makes sequences of calls of the lock manager and of the status monitor, by three hosts on two files in memory. The
// input chooses procedures and arguments, well-formed or not, lets time pass, restarts the server, and says how hosts
// answer the server's calls. After each call the tables must be consistent.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfs/nlm/local_monitor.h"
#include "nfs/nlm/lock_manager.h"
#include "nfs/nlm/program.h"
#include "nfs/nlm/status_monitor.h"
#include "nfs4_server.h"
#include "protocol/nlm.h"
#include "protocol/nlm4.h"
#include "protocol/nsm.h"
#include "rdma/sim/world.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Die;
using fuzz::Input;
using nfs::nlm::HostCalls;

class Hosts : public HostCalls {
 public:
  Task<Outcome> Call(nfs::nlm::HostCall call, std::function<void(xdr::Encoder&)> write,
                     std::function<bool(xdr::Decoder&)> read) override {
    BufferPool buffers;
    xdr::Encoder arguments(buffers);
    write(arguments);
    const xdr::Message sent = arguments.Finish();
    const bool watches = call.program == nsm::SM_PROG && call.procedure == nsm::SM_MON::kNumber;
    if (watches) {
      xdr::Decoder decoder(sent);
      nsm::mon asked;
      if (!xdr::Decode(decoder, asked)) Die("a malformed SM_MON");
      cookie = asked.priv;
    }
    if (outcome != Outcome::kAnswered) co_return outcome;
    xdr::Encoder results(buffers);
    if (watches) {
      const bool agrees = status == nlm4::NLM4_GRANTED;
      xdr::Encode(results, nsm::sm_stat_res{.res_stat = agrees ? nsm::STAT_SUCC : nsm::STAT_FAIL, .state = 1});
    } else if (call.program == nsm::SM_PROG) {
      xdr::Encode(results, nsm::sm_stat{.state = 1});
    } else {
      xdr::Encode(results, nlm4::nlm4_res{.cookie = {}, .stat = status});
    }
    const xdr::Message reply = results.Finish();
    xdr::Decoder decoder(reply);
    co_return read(decoder) ? Outcome::kAnswered : Outcome::kRefused;
  }
  Outcome outcome = Outcome::kAnswered;
  nlm4::nlm4_stats status = nlm4::NLM4_GRANTED;
  std::array<std::byte, nsm::SM_PRIV_SIZE> cookie{};  // of the last SM_MON
};

class Server : fuzz::Nfs4Server {
 public:
  Server() : Nfs4Server({}, {nfs::SecurityFlavor::kNone}) {
    for (const char* name : {"a", "b"}) Spawn(Make(name));
    files_.push_back({});
    Restart();
  }
  ~Server() { StopManager(); }

  void Execute(Input& input) {
    const uint8_t what = input.Octet();
    if (what >= 250) return Restart();
    if (what >= 240) return Pass(std::chrono::seconds(input.Octet()));
    if (what >= 235) {
      hosts_.outcome = static_cast<HostCalls::Outcome>(input.Octet() % 4);
      hosts_.status = static_cast<nlm4::nlm4_stats>(input.Octet() % 10);
      return;
    }
    if (what >= 230) return local_monitor_->Use(input.Octet() % 2 == 1);
    constexpr std::array<uint32_t, 4> kVersions{4, 3, 1, 4};
    const bool is_passed_on = what >= 220 && what < 225;  // by the status monitor of the server's host
    const uint32_t version = is_passed_on ? nlm4::NLM4_VERS : kVersions[what % 4];
    const uint32_t procedure = is_passed_on ? nlm4::NLMPROC4_SM_NOTIFY::kNumber : input.Octet() % 25;
    const uint8_t by = input.Octet();
    peer_.address = {asio::ip::make_address(by % 3 == 2 ? "192.0.2.2" : "192.0.2.1"), static_cast<uint16_t>(600 + by)};
    if (is_passed_on) peer_.address = {asio::ip::address_v4::loopback(), peer_.address.port()};
    const std::string name = by % 3 == 0 ? "alice" : by % 3 == 1 ? "alice.example.org" : "bob";

    xdr::Encoder encoder(buffers_);
    const bool is_monitor = what >= 225;
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid_),
                                    is_monitor ? nsm::SM_PROG : nlm4::NLM4_PROGRAM,
                                    is_monitor ? nsm::SM_VERS : version,
                                    is_monitor ? procedure % 7 : procedure,
                                    {},
                                    {}});
    if (is_monitor) {
      xdr::Encode(encoder, nsm::stat_chge{.mon_name = name, .state = 3});
    } else if (is_passed_on) {
      xdr::Encode(encoder, nlm4::nlm4_sm_status{.mon_name = name, .state = by, .priv = hosts_.cookie});
    } else if (what % 8 == 7) {
      encoder.Fixed(input.Take(input.Octet()));
    } else if (version == 4) {
      Write<nlm4::nlm4_lockargs, nlm4::nlm4_cancargs, nlm4::nlm4_testargs, nlm4::nlm4_unlockargs, nlm4::nlm4_shareargs,
            nlm4::nlm4_notify>(encoder, procedure, name, input);
    } else {
      Write<nlm1::nlm_lockargs, nlm1::nlm_cancargs, nlm1::nlm_testargs, nlm1::nlm_unlockargs, nlm1::nlm_shareargs,
            nlm1::nlm_notify>(encoder, procedure, name, input);
    }
    std::optional<rpc::Message> reply;
    Spawn(Run(encoder.Finish(), reply));
    // A call may wait for the return of a delegation.
    world_.RunUntil([&] { return reply.has_value(); });
    if (!reply || reply->empty()) Die("no reply");
    CheckConsistency();
  }

 private:
  template <class Lock, class Cancel, class Test, class Unlock, class Share, class Notify>
  void Write(xdr::Encoder& encoder, uint32_t procedure, std::string_view name, Input& input) {
    Lock lock;
    const uint8_t how = input.Octet();
    lock.alock.caller_name = name;
    const std::string& file = files_[how % files_.size()];
    lock.alock.fh = AsBytes(file);
    lock.alock.svid = how / 64;
    lock.alock.l_offset = input.Octet();
    lock.alock.l_len = input.Octet();
    if (lock.alock.l_offset >= 250) lock.alock.l_offset = static_cast<decltype(lock.alock.l_offset)>(-2);
    lock.block = how & 4;
    lock.exclusive = how & 8;
    lock.reclaim = (how & 48) == 48;
    switch (procedure) {
      case nlm4::NLMPROC4_LOCK::kNumber:
      case nlm4::NLMPROC4_LOCK_MSG::kNumber:
      case nlm4::NLMPROC4_NM_LOCK::kNumber:
        return xdr::Encode(encoder, lock);
      case nlm4::NLMPROC4_CANCEL::kNumber:
      case nlm4::NLMPROC4_CANCEL_MSG::kNumber:
        return xdr::Encode(encoder,
                           Cancel{.cookie = {}, .block = lock.block, .exclusive = lock.exclusive, .alock = lock.alock});
      case nlm4::NLMPROC4_UNLOCK::kNumber:
      case nlm4::NLMPROC4_UNLOCK_MSG::kNumber:
        return xdr::Encode(encoder, Unlock{.cookie = {}, .alock = lock.alock});
      case nlm4::NLMPROC4_SHARE::kNumber:
      case nlm4::NLMPROC4_UNSHARE::kNumber: {
        Share share;
        share.share.caller_name = name;
        share.share.fh = AsBytes(file);
        share.share.oh = AsBytes(name);
        share.share.mode = static_cast<decltype(share.share.mode)>(how / 4 % 4);
        share.share.access = static_cast<decltype(share.share.access)>(how / 16 % 4);
        return xdr::Encode(encoder, share);
      }
      case nlm4::NLMPROC4_FREE_ALL::kNumber:
        return xdr::Encode(encoder, Notify{.name = name, .state = 3});
      default:
        return xdr::Encode(encoder, Test{.cookie = {}, .exclusive = lock.exclusive, .alock = lock.alock});
    }
  }

  void Pass(Duration time) {
    clock_.now += time;
    world_.RunFor(time);
    KeepLeases();
    manager_->Sweep();
  }

  // kill -9, and a new start.
  void Restart() {
    StopManager();
    Start();
    locks_.emplace(MakeServices());
    local_monitor_.emplace(hosts_, world_);
    local_monitor_->Use(true);
    manager_.emplace(exports_, *locks_, hosts_, *local_monitor_, nullptr, world_);
    peer_.buffers = &buffers_;
    dispatcher_.emplace();
    for (const uint32_t version : {1, 3, 4}) {
      programs_.push_back(std::make_unique<nfs::nlm::Program>(*manager_, version));
      dispatcher_->Add(*programs_.back());
    }
    monitor_.emplace(*manager_, 3);
    dispatcher_->Add(*monitor_);
  }
  void StopManager() {
    if (!manager_) return;
    Spawn(local_monitor_->Stop());
    Spawn(manager_->Stop());
    world_.RunFor(std::chrono::minutes(1));
    dispatcher_.reset();
    programs_.clear();
    manager_.reset();
  }

  Task<> Make(const char* name) {
    const nfs::Export& in = *exports_.table().all()[0];
    fs::NewAttributes attributes;
    attributes.mode = 0666;
    fs::CreateHow how;
    how.attributes = attributes;
    const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    const auto made = co_await in.file_system().Create(root, in.file_system().Root(), name, how);
    if (!made.result) Die("no file");
    files_.emplace_back(AsText(nfs::EncodedHandle({in.id(), made.result->handle}).bytes()));
  }
  Task<> Run(rpc::Message call, std::optional<rpc::Message>& reply) {
    reply.emplace(co_await dispatcher_->HandleCall(std::move(call), peer_));
  }

  rdma::sim::World world_{1};
  Hosts hosts_;
  std::vector<std::string> files_;
  rpc::Peer peer_;
  uint32_t xid_ = 0;
  std::optional<nfs::v4::HostLocks> locks_;
  std::optional<nfs::nlm::LocalMonitor> local_monitor_;
  std::optional<nfs::nlm::LockManager> manager_;
  std::vector<std::unique_ptr<nfs::nlm::Program>> programs_;
  std::optional<nfs::nlm::StatusMonitor> monitor_;
  std::optional<rpc::Dispatcher> dispatcher_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Server server;
  while (!input.empty()) server.Execute(input);
  return 0;
}
