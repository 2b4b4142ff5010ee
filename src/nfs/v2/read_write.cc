// READ, WRITE.
#include <algorithm>

#include "nfs/v2/convert.h"
#include "nfs/v2/procedures.h"
#include "nfs/v2/settings.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

// RFC 1094 §2.2.7. The file system's data, in memory or as a range of a file, becomes the payload without a copy.
Reply<readok> Read(Request request, const readargs& arguments) {
  Target target(request, arguments.file);
  if (!target) co_return std::unexpected(target.error());
  if (target.may_be_claimed()) PENSTOCK_CO_CHECK(co_await target.CheckUse(FileClaims::Use::kRead));

  const uint32_t count = std::min(arguments.count, kMaxTransfer);
  auto observed = co_await target.file_system().Read(target.context(), target.object(), arguments.offset, count);
  if (!observed.result) co_return std::unexpected(observed.result.error());
  readok ok;
  PENSTOCK_CO_TRY(ok.attributes, co_await target.Attributes(target.object(), observed.attributes));
  ok.data = std::move(observed.result->data);
  request.call.notes.read_octets = ok.data.size();
  co_return ok;
}

// RFC 1094 §2.2.9. The reply has no count, so all data is written, or the call fails. Version 2 has no COMMIT: the data
// is on stable storage before the reply.
Reply<fattr> Write(Request request, const writeargs& arguments) {
  Target target(request, arguments.file);
  if (!target) co_return std::unexpected(target.error());
  if (target.read_only()) co_return std::unexpected(fs::Error::kReadOnly);
  const uint64_t size = arguments.data.size();
  const uint64_t limit = std::min(kMaxSize, target.file_system().GetProperties().max_file_size);
  if (arguments.offset > limit || size > limit - arguments.offset) co_return std::unexpected(fs::Error::kFileTooBig);
  if (target.may_be_claimed()) PENSTOCK_CO_CHECK(co_await target.CheckUse(FileClaims::Use::kWrite));
  PENSTOCK_CO_CHECK(co_await target.CheckSize());

  std::optional<fs::Attributes> after;
  uint64_t done = 0;
  do {
    const Data rest = arguments.data.data().Sub(done, size - done);
    auto changed = co_await target.file_system().Write(target.context(), target.object(), arguments.offset + done, rest,
                                                       fs::Stability::kFileSync);
    if (!changed.result) co_return std::unexpected(changed.result.error());
    after = changed.object.after;
    done += changed.result->count;
    if (changed.result->count == 0 && done < size) co_return std::unexpected(fs::Error::kIo);
  } while (done < size);
  request.call.notes.written_octets = done;
  co_return co_await target.AttributesAfter(after);
}

}  // namespace penstock::nfs::v2
