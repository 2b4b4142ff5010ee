// Binds a generated procedure to a function:
//
//   Task<AcceptStatus> MyProgram::Call(CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override {
//     switch (context.procedure) {
//       case GETATTR::kNumber:
//         return rpc::Handle<GETATTR>(context, arguments, results,
//                                     [this](CallContext& c, GETATTR3args& a) { return GetAttr(c, a); });
//       default:
//         return rpc::Refuse(AcceptStatus::PROC_UNAVAIL);
//     }
//   }
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "rpc/dispatch.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::rpc {

// Notes the status of results that begin with one, if it is an error, for Program::HandleFailure().
template <class Procedure, class Results>
void NoteOutcome(CallContext& context, const Results& results) {
  if constexpr (requires { static_cast<uint32_t>(results.status()); }) {
    const auto status = static_cast<uint32_t>(results.status());
    if (status == 0) [[likely]]
      return;
    context.outcome.status = status;
    context.outcome.procedure = Procedure::kName;
  }
}

// Decodes the arguments, calls `function(context, arguments)`, which returns the procedure's Results or a Task of them,
// and encodes the results. Views in the arguments are valid until the function has finished. The data that the results
// refer to must live until then. Payloads must own their memory.
template <class Procedure, class Function>
Task<AcceptStatus> Handle(CallContext& context, xdr::Decoder& decoder, xdr::Encoder& encoder, Function function) {
  using Arguments = typename Procedure::Arguments;
  using Results = typename Procedure::Results;
  Arguments arguments{};
  if (!xdr::Decode(decoder, arguments) || !decoder.Finish()) co_return AcceptStatus::GARBAGE_ARGS;
  if constexpr (std::same_as<std::invoke_result_t<Function&, CallContext&, Arguments&>, Task<Results>>) {
    const Results results = co_await function(context, arguments);
    NoteOutcome<Procedure>(context, results);
    xdr::Encode(encoder, results);
  } else {
    const Results results = function(context, arguments);
    NoteOutcome<Procedure>(context, results);
    xdr::Encode(encoder, results);
  }
  co_return AcceptStatus::SUCCESS;
}

inline Task<AcceptStatus> Refuse(AcceptStatus status) { co_return status; }

}  // namespace penstock::rpc
