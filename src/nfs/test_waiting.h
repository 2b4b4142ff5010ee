// For tests of calls that wait: programs behind a dispatcher, on a loop on which time passes.
#pragma once

#include <optional>
#include <utility>

#include "base/loop.h"
#include "base/test_loop.h"
#include "nfs/test_server.h"
#include "rpc/reply_cache.h"

namespace penstock::nfs {

class WaitingCalls {
 public:
  // `memory` outlives the object, and encodes the calls. Its peer is on the loop from now on.
  explicit WaitingCalls(TestServer& memory) : memory_(memory) {
    memory.peer.loop = &loop;
    memory.peer.buffers = &loop.buffers();
  }

  // Serves this program, and no other one any more. It outlives the calls.
  void Serve(rpc::Program& program) {
    dispatcher_.emplace(cache, clock_);
    dispatcher_->Add(program);
  }

  void Start(rpc::Message call, std::optional<rpc::Message>& reply) {
    Spawn([](rpc::Dispatcher& to, rpc::Message message, const rpc::Peer& peer,
             std::optional<rpc::Message>& into) -> Task<> {
      into.emplace(co_await to.HandleCall(std::move(message), peer));
    }(*dispatcher_, std::move(call), memory_.peer, reply));
  }
  // Returns an empty message if there is no reply.
  rpc::Message Ask(rpc::Message call) {
    std::optional<rpc::Message> reply;
    Start(std::move(call), reply);
    EXPECT_TRUE(TurnUntil(loop, [&] { return reply.has_value(); }));
    return reply ? std::move(*reply) : rpc::Message();
  }
  template <class Procedure>
  typename Procedure::Results Call(const typename Procedure::Arguments& arguments) {
    Answer answer{.message = Ask(memory_.EncodeCall<Procedure>(arguments)), .header = {}};
    xdr::Decoder decoder(answer.message);
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, answer.header));
    return memory_.ResultsOf<Procedure>(std::move(answer));
  }

  Loop loop;
  rpc::ReplyCache cache;

 private:
  TestServer& memory_;
  StoppedClock clock_;
  std::optional<rpc::Dispatcher> dispatcher_;
};

}  // namespace penstock::nfs
