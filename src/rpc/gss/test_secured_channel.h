// For tests: a client with channels that RPCSEC_GSS protects, and its server, in one process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rpc/client.h"
#include "rpc/gss/hasty_clock.h"
#include "rpc/gss/secured_channel.h"
#include "rpc/gss/test_acceptor.h"

namespace penstock::rpc::gss {

using namespace std::chrono_literals;

// The messages on the connections of a test. The test can change the replies.
struct Wire {
  std::vector<Message> calls;
  std::vector<ReplyShape> shapes;
  std::vector<CallError> failures;                // of the first calls
  std::function<Message(Message, size_t)> alter;  // changes the reply to the n-th call

  Xid xid(size_t n) const { return Xid(LoadBig<uint32_t>(calls.at(n).stream.data())); }
  // The procedure of RPCSEC_GSS in the n-th call.
  uint32_t gss_procedure(size_t n) const { return LoadBig<uint32_t>(calls.at(n).stream.data() + 36); }
  size_t Count(rpcsecgss::rpc_gss_proc_t procedure) const {
    size_t count = 0;
    for (size_t i = 0; i < calls.size(); ++i) count += gss_procedure(i) == static_cast<uint32_t>(procedure) ? 1 : 0;
    return count;
  }
};

class SecuredChannelTest : public AcceptorTest {
 protected:
  class WireChannel : public Channel {
   public:
    explicit WireChannel(SecuredChannelTest& test) : test_(test) {}
    Task<penstock::Result<Message, CallError>> Call(Message call, ReplyShape shape) override {
      Wire& of_test = test_.wire;
      const size_t number = of_test.calls.size();
      of_test.calls.push_back(call);
      of_test.shapes.push_back(std::move(shape));
      if (number < of_test.failures.size()) co_return std::unexpected(of_test.failures[number]);
      Message reply = co_await test_.dispatcher.HandleCall(std::move(call), test_.peer);
      if (reply.empty()) co_return std::unexpected(CallError::kDisconnected);
      EXPECT_LE(reply.flat_size(), of_test.shapes[number].max_stream + ResultsOf(of_test.shapes[number]));
      if (of_test.alter) reply = of_test.alter(std::move(reply), number);
      co_return reply;
    }

   private:
    static size_t ResultsOf(const ReplyShape& of) {
      size_t sum = 0;
      for (const ResultSink& sink : of.results) sum += sink.max_length;
      return sum;
    }
    SecuredChannelTest& test_;
  };

  std::unique_ptr<SecuredChannel> NewChannel() {
    return std::make_unique<SecuredChannel>(std::make_unique<WireChannel>(*this), context);
  }
  void Advance(Duration time) {
    clock.now += time;
    client_clock.now += time;
  }

  // Makes a call, which must end at once.
  template <class Procedure>
  penstock::Result<rpc::Reply<typename Procedure::Results>, Error> Call(const typename Procedure::Arguments& arguments,
                                                                        GssService service = GssService::kIntegrity,
                                                                        const ReplyBounds& bounds = {.open = 3000,
                                                                                                     .results = {}}) {
    Client client(*channel, pool, next_xid, ClientCredential(service));
    next_xid = Xid(next_xid.value() + 10);
    std::optional<penstock::Result<rpc::Reply<typename Procedure::Results>, Error>> result;
    Spawn([](Client& c, const typename Procedure::Arguments& a, ReplyBounds b, auto& out) -> Task<void> {
      out.emplace(co_await c.Call<Procedure>(a, std::move(b)));
    }(client, arguments, bounds, result));
    EXPECT_TRUE(result) << "the call has not ended";
    return *std::move(result);
  }
  penstock::Result<uint32_t, Error> Asked(GssService service = GssService::kIntegrity) {
    const auto reply = Call<rpc::testing::WhoAmI>({}, service);
    if (!reply) return std::unexpected(reply.error());
    return reply->results;
  }
  static bool IsTransport(const Error& error, CallError kind) {
    return error.kind == Error::Kind::kTransport && error.transport == kind;
  }
  Message Denial(const Message& reply, AuthStatus why) {
    xdr::Encoder denial(pool);
    EncodeAuthError(denial, Xid(LoadBig<uint32_t>(reply.stream.data())), why);
    return denial.Finish();
  }
  // A copy of the message with one octet changed, counted from the end.
  Message Changed(const Message& message, size_t from_end) {
    const BufferRef buffer = pool.Allocate(message.stream.size());
    CopyBytes(buffer->bytes(), message.stream.bytes());
    buffer->bytes()[message.stream.size() - from_end] ^= std::byte{1};
    return Message::Whole(Slice(buffer, buffer->bytes().first(message.stream.size())));
  }

  Wire wire;
  HastyClock client_clock;
  std::shared_ptr<testing::ToyInitiatingMechanism> alice = std::make_shared<testing::ToyInitiatingMechanism>("alice");
  testing::ToyInitiatingMechanism& initiator = *alice;
  std::shared_ptr<ClientContext> context = std::make_shared<ClientContext>(
      ClientContext::Parts{.mechanism = alice, .timers = client_clock, .place = {.buffers = pool}, .patience = 60s});
  std::unique_ptr<SecuredChannel> channel = NewChannel();
  Xid next_xid{100};
};

}  // namespace penstock::rpc::gss
