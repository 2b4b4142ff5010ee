// READDIR.
#include <algorithm>
#include <optional>
#include <utility>

#include "nfs/v2/convert.h"
#include "nfs/v2/listing_cookies.h"
#include "nfs/v2/procedures.h"
#include "nfs/v2/settings.h"
#include "rpc/client_key.h"
#include "xdr/encode.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

namespace {

// The octets of the results besides entries: status, the end of the list, eof.
constexpr size_t kOverhead = xdr::MaxSize<readdirres>();
static_assert(kOverhead == 4 + 4 + 4);

// The file system delivers entries, perhaps on another thread.
class Entries : public fs::EntrySink {
 public:
  // `maximum` limits the whole results in octets.
  explicit Entries(uint32_t maximum) : room_(maximum < kOverhead ? 0 : maximum - kOverhead) {}

  bool Add(const fs::DirectoryEntry& given) override {
    const entry form{.fileid = Fold(given.fileid), .name = given.name, .cookie = 0};
    const size_t size = 4 + xdr::EncodedSize(form);
    // Version 2 cannot express a longer name. The listing ends before it, and then with an error.
    if (size > room_ || given.name.size() > NFS_MAXNAMLEN) {
      full_ = true;
      return false;
    }
    room_ -= size;
    entries_.push_back({{form.fileid, std::string(given.name), 0}, given.cookie});
    return true;
  }

  // True if the first entry does not fit into the reply.
  bool too_small() const { return full_ && entries_.empty(); }

  // Returns nullopt if the client's cookie turns out to be unknown.
  std::optional<std::vector<Listing::Entry>> Take(ListingCookies& cookies) {
    std::vector<Listing::Entry> taken;
    taken.reserve(entries_.size());
    for (auto& [listed, cookie] : entries_) {
      const std::optional<uint32_t> number = cookies.Next(cookie);
      if (!number) return std::nullopt;
      listed.cookie = *number;
      taken.push_back(std::move(listed));
    }
    return taken;
  }

 private:
  size_t room_;
  bool full_ = false;
  std::vector<std::pair<Listing::Entry, fs::Cookie>> entries_;
};

}  // namespace

// RFC 1094 §2.2.17
Reply<Listing> ReadDirectory(Request request, const readdirargs& arguments) {
  Target target(request, arguments.dir);
  if (!target) co_return std::unexpected(target.error());
  const uint64_t host = rpc::ClientKeyOf(request.call.peer).host;
  const fs::Identity directory = target.exported().Name(target.object()).identity;
  const bool positional = target.file_system().GetProperties().positional_cookies;
  ListingCookies cookies(request.cookies, host, directory, positional);
  const std::optional<fs::Cookie> cookie = cookies.Start(arguments.cookie);
  if (!cookie) co_return std::unexpected(fs::Error::kBadCookie);

  Entries entries(std::min(arguments.count, kMaxTransfer));
  const fs::ReadDirectoryArguments place{.cookie = *cookie, .verifier = {}, .with_nodes = false};
  const auto observed = co_await target.file_system().ReadDirectory(target.context(), target.object(), place, entries);
  if (!observed.result) co_return std::unexpected(observed.result.error());
  if (entries.too_small()) co_return std::unexpected(fs::Error::kIo);
  auto taken = entries.Take(cookies);
  if (!taken) co_return std::unexpected(fs::Error::kBadCookie);
  Listing listing{.entries = *std::move(taken), .eof = observed.result->eof};
  co_return listing;
}

}  // namespace penstock::nfs::v2
