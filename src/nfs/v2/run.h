// Executes a call of a procedure that returns its value or an error (procedures.h), and repeats it while it cannot be
// executed (nfs/patience.h). NFSACL version 2 uses this for its procedures as well.
#pragma once

#include <type_traits>

#include "base/log.h"
#include "base/task.h"
#include "nfs/patience.h"
#include "nfs/v2/convert.h"
#include "nfs/v2/procedures.h"
#include "rpc/dispatch.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::v2 {

// What a procedure's function needs besides the arguments. It refers to objects that outlive the call.
struct Execution {
  Request request;
  Patience patience;
};

template <class Arguments, class T>
using Function = Reply<T> (*)(Request, const Arguments&);

// Encodes the results: the status, and after NFS_OK the value.
template <class T>
void EncodeOk(xdr::Encoder& results, const T& value) {
  xdr::Encode(results, nfs2::NFS_OK);
  xdr::Encode(results, value);
}

inline void EncodeOk(xdr::Encoder& results, const Listing& listing) {
  nfs2::readdirok ok{.entries = {}, .eof = listing.eof};
  for (const Listing::Entry& each : listing.entries) {
    ok.entries.push_back({.fileid = each.fileid, .name = each.name, .cookie = each.cookie});
  }
  xdr::Encode(results, nfs2::NFS_OK);
  xdr::Encode(results, ok);
}

// Decodes the arguments, calls `function`, and encodes the results. A call that has waited for longer than
// Settings::patience gets no reply and its connection ends: the client sends the call again over a new one, as it does
// when a server restarts.
template <class Procedure, class T>
Task<rpc::AcceptStatus> Run(Execution execution, xdr::Decoder& arguments, xdr::Encoder& results,
                            Function<typename Procedure::Arguments, T> function) {
  typename Procedure::Arguments decoded{};
  if (!xdr::Decode(arguments, decoded) || !arguments.Finish()) co_return rpc::AcceptStatus::GARBAGE_ARGS;
  for (;;) {
    const fs::Result<T> done = co_await function(execution.request, decoded);
    if (done) {
      if constexpr (std::is_void_v<T>) {
        xdr::Encode(results, nfs2::NFS_OK);
      } else {
        EncodeOk(results, *done);
      }
      co_return rpc::AcceptStatus::SUCCESS;
    }
    if (done.error() != fs::Error::kDelay) {
      const nfs2::nfsstat status = ToStatus(done.error());
      rpc::CallOutcome& outcome = execution.request.call.outcome;
      outcome.status = static_cast<uint32_t>(status);
      outcome.procedure = Procedure::kName;
      xdr::Encode(results, status);
      co_return rpc::AcceptStatus::SUCCESS;
    }
    const bool again = co_await execution.patience.Wait();
    if (again) continue;
    log::debug("{} gets no reply: the server cannot execute it now", Procedure::kName);
    execution.request.call.no_reply = true;
    co_return rpc::AcceptStatus::SUCCESS;
  }
}

}  // namespace penstock::nfs::v2
