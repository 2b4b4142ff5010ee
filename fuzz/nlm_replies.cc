// A client locks, unlocks and tests a file of version 3 while the lock manager's replies are arbitrary, and connections
// are lost. The client must not believe in a lock that no reply has granted, and must give back what it may hold.
//
// Input: an octet for each step; for each reply an octet that chooses an error, a status or arbitrary results, and the
// octets of those.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/task.h"
#include "client/nfs3/file_locks.h"
#include "client/nfs3/lock_service.h"
#include "input.h"
#include "protocol/nlm4.h"
#include "rdma/sim/world.h"
#include "rpc/header.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using namespace nlm4;      // NOLINT: the protocol's own names, RFC 1813 appendix II
using client::ByteRange;
using client::LockKind;
using fuzz::Input;

class ArbitraryChannel final : public rpc::Channel {
 public:
  ArbitraryChannel(Input& input, rdma::sim::World& world, BufferPool& pool, uint64_t& grants)
      : input_(input), world_(world), pool_(pool), grants_(grants) {}

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape /*shape*/) override {
    // A reply is never there before the call has returned.
    co_await Sleep(world_, std::chrono::milliseconds(1));
    xdr::Decoder decoder(call);
    rpc::CallHeader header;
    if (rpc::DecodeCallHeader(decoder, header) != rpc::HeaderProblem::kNone) fuzz::Die("a malformed call");
    const uint8_t kind = input_.Octet();
    // At the end of the input the server answers well, so that everything ends.
    if (!input_.empty() && kind % 8 == 0) co_return std::unexpected(rpc::CallError::kDisconnected);
    xdr::Encoder encoder(pool_);
    rpc::EncodeAccepted(encoder, header.xid, rpc::AcceptStatus::SUCCESS);
    if (header.procedure == NLMPROC4_NULL::kNumber) co_return encoder.Finish();
    if (kind % 8 == 1) {
      ++grants_;  // whatever the octets are
      encoder.Fixed(input_.Take(size_t{4} * (kind / 8)));
      co_return encoder.Finish();
    }
    const auto status = input_.empty() ? NLM4_GRANTED : static_cast<nlm4_stats>(kind / 8 % 10);
    if (header.procedure == NLMPROC4_TEST::kNumber) {
      const ConstBytes octets = input_.Take(8);
      nlm4_holder holder{
          .exclusive = kind % 2 == 0, .svid = 1, .oh = {}, .l_offset = ~uint64_t{0} - kind, .l_len = kind};
      if (octets.size() == 8) holder.l_len = LoadBig<uint64_t>(octets.data());
      xdr::Encode(encoder, nlm4_testres{.cookie = {},
                                        .test_stat = status == NLM4_DENIED ? nlm4_testrply(status, holder)
                                                                           : nlm4_testrply(status)});
    } else {
      if (header.procedure == NLMPROC4_LOCK::kNumber && status == NLM4_GRANTED) ++grants_;
      xdr::Encode(encoder, nlm4_res{.cookie = {}, .stat = status});
    }
    co_return encoder.Finish();
  }

 private:
  Input& input_;
  rdma::sim::World& world_;
  BufferPool& pool_;
  uint64_t& grants_;
};

template <class T>
Task<void> Finish(Task<T> task, std::optional<T>& out) {
  out.emplace(co_await std::move(task));
}
Task<void> Finish(Task<void> task, bool& out) {
  co_await std::move(task);
  out = true;
}

class Fuzzer {
 public:
  explicit Fuzzer(Input& input) : input_(input) {}

  void Run() {
    while (!input_.empty()) Step(input_.Octet());
    bool stopped = false;
    Spawn(Finish(service_.Stop(), stopped));
    world_.Run();
    if (!stopped) fuzz::Die("the client does not stop");
    if (locks_->in_use() && !Loses()) fuzz::Die("the client has kept locks");
  }

 private:
  void Step(uint8_t what) {
    const std::string owner(1, static_cast<char>('a' + what / 4 % 3));
    const ByteRange range{what % 16u, what % 5 == 0 ? ByteRange::kToEnd : 1u + what % 7};
    const LockKind kind = what % 2 == 0 ? LockKind::kExclusive : LockKind::kShared;
    const uint64_t before = grants_;
    switch (what % 4) {
      case 0:
      case 1:
        if (const auto locked = Do(locks_->Lock(owner, range, kind, std::chrono::milliseconds(what), nullptr));
            locked && grants_ == before) {
          fuzz::Die("a lock that no reply has granted");
        }
        break;
      case 2:
        (void)Do(locks_->Unlock(owner, range));
        break;
      default:
        if (what >= 128) service_.HandleLoss();
        if (const auto tested = Do(locks_->Test(owner, range, kind)); tested && *tested && !IsValid((*tested)->range)) {
          fuzz::Die("a conflict in an impossible range");
        }
    }
  }
  // Whether an owner has not been told of a loss yet.
  bool Loses() { return !Do(locks_->CheckData()); }

  template <class T>
  T Do(Task<T> task) {
    std::optional<T> result;
    Spawn(Finish(std::move(task), result));
    world_.Run();
    if (!result) fuzz::Die("a call does not end");
    return *std::move(result);
  }

  Input& input_;
  rdma::sim::World world_{1};
  BufferPool pool_;
  uint64_t grants_ = 0;
  client::v3::LockService service_{
      {.timers = world_,
       .buffers = pool_,
       .host = "server",
       .open = [this](Duration) -> Task<SetupResult<std::unique_ptr<rpc::Channel>>> {
         co_return std::make_unique<ArbitraryChannel>(input_, world_, pool_, grants_);
       },
       .reach_server = []() -> Task<client::Result<void>> { co_return client::Result<void>(); },
       .credential = {},
       .retry = {.give_up_after = std::chrono::seconds(30)}}};
  std::shared_ptr<client::v3::FileLocks> locks_ =
      std::make_shared<client::v3::FileLocks>(service_, client::Handle(AsBytes(std::string_view("file"))), "file");
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Fuzzer(input).Run();
  return 0;
}
