// A program for tests and fuzzers: a few procedures that make the behaviour of the RPC layer visible.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "rpc/handle.h"

namespace penstock::rpc::testing {

inline constexpr uint32_t kTestProgram = 0x2000'0001;

template <uint32_t kProcedure, class A, class R>
struct Procedure {
  static constexpr uint32_t kProgram = kTestProgram;
  static constexpr uint32_t kVersion = 3;
  static constexpr uint32_t kNumber = kProcedure;
  using Arguments = A;
  using Results = R;
};
struct Null : Procedure<0, xdr::Void, xdr::Void> {};
// Returns its argument.
struct Echo : Procedure<1, xdr::StringView<2'000'000>, xdr::StringView<2'000'000>> {};
// Adds to a sum and returns the sum. Not idempotent.
struct Add : Procedure<2, uint32_t, uint32_t> {};
// Like Add, but waits for TestProgram::Release().
struct SlowAdd : Procedure<3, uint32_t, uint32_t> {};
// Returns the first octets of TestProgram::data.
struct Read : Procedure<4, uint32_t, xdr::Payload<>> {};
struct Fail : Procedure<5, xdr::Void, xdr::Void> {};
// Returns the caller's uid. Does not accept AUTH_NONE.
struct WhoAmI : Procedure<6, xdr::Void, uint32_t> {};
// Waits for TestProgram::Release(), then sets the sum. Idempotent, but a late execution undoes later changes.
struct SlowSet : Procedure<7, uint32_t, uint32_t> {};

// Adds the length of its argument to a sum, and returns the sum. May be called before the argument has arrived.
struct AddLength : Procedure<8, xdr::Payload<>, uint32_t> {};

class TestProgram : public Program {
 public:
  uint32_t number() const override { return kTestProgram; }
  VersionRange versions() const override { return {2, 3}; }
  Classification Classify(CallContext& context, xdr::Decoder& /*arguments*/) const override {
    Classification classification = Classify(context);
    classification.is_judged = judges;
    return classification;
  }
  void Preview(CallContext& context, xdr::Decoder& /*arguments*/) const override {
    previews.push_back(context.xid.value());
  }
  static Classification Classify(const CallContext& context) {
    switch (context.procedure) {
      case Add::kNumber:
      case SlowAdd::kNumber:
        return {.keep = Keep::kChange};
      case SlowSet::kNumber:
        return {.keep = Keep::kWrite};
      case AddLength::kNumber:
        return {.keep = Keep::kWrite, .takes_arriving = true};
      case WhoAmI::kNumber:
        return {.accepts_flavor = context.credential.flavor != AuthFlavor::AUTH_NONE};
      default:
        return {};
    }
  }

  Task<AcceptStatus> Call(CallContext& context, xdr::Decoder& decoder, xdr::Encoder& encoder) override {
    ++calls;
    if (on_call) on_call();
    last = context.credential;
    last_peer = context.peer;
    last_call_octets = decoder.flat_size() + context.call_overhead;
    last_reply_overhead = context.reply_overhead;
    context.denial = denial;
    context.no_reply = no_reply;
    switch (context.procedure) {
      case Null::kNumber:
        return Handle<Null>(context, decoder, encoder, [](auto&, auto&) { return xdr::Void(); });
      case Echo::kNumber:
        return Handle<Echo>(context, decoder, encoder, [](auto&, auto& text) { return text; });
      case Add::kNumber:
        return Handle<Add>(context, decoder, encoder, [this](auto&, auto& number) { return sum += number; });
      case SlowAdd::kNumber:
        return Handle<SlowAdd>(context, decoder, encoder, [this](auto&, auto& number) { return Slow(number); });
      case AddLength::kNumber:
        return Handle<AddLength>(context, decoder, encoder,
                                 [this](auto&, auto& payload) { return sum += static_cast<uint32_t>(payload.size()); });
      case Read::kNumber:
        return Handle<Read>(context, decoder, encoder, [this](auto&, auto& count) {
          return xdr::Payload<>(data.Sub(0, std::min<size_t>(count, data.size())));
        });
      case Fail::kNumber:
        return Refuse(AcceptStatus::SYSTEM_ERR);
      case WhoAmI::kNumber:
        return Handle<WhoAmI>(context, decoder, encoder, [](auto& c, auto&) { return c.credential.uid; });
      case SlowSet::kNumber:
        return Handle<SlowSet>(context, decoder, encoder, [this](auto&, auto& number) { return SetSlowly(number); });
      default:
        return Refuse(AcceptStatus::PROC_UNAVAIL);
    }
  }

  // Resumes all waiting calls.
  void Release() {
    for (OneShot<>* completion : std::exchange(waiting, {})) completion->Set();
  }

  uint32_t sum = 0;
  Data data;
  std::vector<OneShot<>*> waiting;
  AuthStatus denial = AuthStatus::AUTH_OK;  // denies all calls with this status
  bool no_reply = false;                    // the calls get no reply
  bool judges = false;                      // see Classification::is_judged; the program then judges no call
  mutable std::vector<uint32_t> previews;   // the XIDs of previewed calls
  size_t calls = 0;                         // the number of executed calls
  std::function<void()> on_call{};          // runs during each call
  // These describe the last call.
  Credential last;
  Peer last_peer;
  size_t last_call_octets = 0;
  size_t last_reply_overhead = 0;

 private:
  Task<uint32_t> Slow(uint32_t number) {
    OneShot<> released;
    waiting.push_back(&released);
    co_await released;
    co_return sum += number;
  }
  Task<uint32_t> SetSlowly(uint32_t number) {
    OneShot<> released;
    waiting.push_back(&released);
    co_await released;
    co_return sum = number;
  }
};

}  // namespace penstock::rpc::testing
