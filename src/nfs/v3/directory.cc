// READDIR, READDIRPLUS.
//
// The file system delivers entries, perhaps on another thread. They are encoded into memory that was reserved before.
// Then the rest of the results is put before them, so that the attributes are those after the reading.
#include <algorithm>

#include "nfs/v3/convert.h"
#include "nfs/v3/procedures.h"
#include "rpc/reply_room.h"
#include "xdr/encode.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

namespace {

// The octets of the results besides entries: attributes, verifier, the end of the list, eof.
constexpr size_t kOverhead = xdr::MaxSize<READDIR3resok>();
static_assert(kOverhead == 4 + 84 + 8 + 4 + 4);
static_assert(kOverhead == xdr::MaxSize<READDIRPLUS3resok>());

class Entries : public fs::EntrySink {
 public:
  // `maximum` limits the whole results in octets; `names` limits the entries without attributes and handles.
  Entries(const Target& target, BufferPool& buffers, bool plus, uint32_t maximum, uint32_t names)
      : target_(target),
        plus_(plus),
        room_(maximum < kOverhead ? 0 : (maximum - kOverhead) & ~size_t{3}),
        names_(names),
        encoder_(buffers, room_) {
    const auto start = encoder_.mark();
    encoder_.Extend(room_);
    encoder_.Rewind(start);
  }

  bool Add(const fs::DirectoryEntry& entry) override {
    const bool taken = plus_ ? AddPlus(entry) : AddPlain(entry);
    full_ |= !taken;
    return taken;
  }

  // True if the first entry was too long.
  bool too_small() const { return full_ && encoder_.size() == 0; }
  // True if the server lacks a resource that each entry needs. The client should retry the whole call later, and not
  // ask for each entry separately.
  bool is_starved() const { return starved_; }
  void MoveTo(xdr::Encoder& results) {
    const xdr::Message entries = encoder_.Finish();
    results.Fixed(entries.stream.bytes());
  }

 private:
  bool AddPlain(const fs::DirectoryEntry& entry) {
    return Put(entry3{.fileid = entry.fileid, .name = entry.name, .cookie = entry.cookie.value()});
  }

  bool AddPlus(const fs::DirectoryEntry& entry) {
    if (entry.error == fs::Error::kDelay) {
      starved_ = true;
      return false;
    }
    // RFC 1813 §3.3.17: an entry with any other error is listed without attributes and handle.
    entryplus3 plus{.fileid = entry.fileid, .name = entry.name, .cookie = entry.cookie.value()};
    // dircount does not limit the first entry.
    const size_t named = xdr::EncodedSize(entry3{.fileid = plus.fileid, .name = plus.name, .cookie = plus.cookie});
    if (encoder_.size() != 0 && named > names_) return false;
    if (entry.handle) {
      plus.name_attributes = target_.PostAttributes(*entry.handle, entry.attributes);
      plus.name_handle = target_.HandleOf(*entry.handle);
    }
    if (!Put(plus)) return false;
    names_ -= std::min(named, names_);
    return true;
  }

  template <class Entry>
  bool Put(const Entry& entry) {
    if (4 + xdr::EncodedSize(entry) > room_ - encoder_.size()) return false;
    encoder_.Bool(true);
    xdr::Encode(encoder_, entry);
    return true;
  }

  const Target& target_;
  const bool plus_;
  const size_t room_;
  size_t names_;
  bool full_ = false;
  bool starved_ = false;
  xdr::Encoder encoder_;
};

struct Place {
  const nfs_fh3& directory;
  cookie3 cookie;
  const cookieverf3& verifier;
};

// Implements both procedures: their results differ only in the entries.
Task<> ReadEntries(Request request, Place place, bool plus, uint32_t maximum, uint32_t names, xdr::Encoder& results) {
  Target target(request, place.directory);
  if (!target) {
    request.call.outcome.status = static_cast<uint32_t>(target.status());
    xdr::Encode(results, READDIR3res(target.status()));
    co_return;
  }
  if (plus && !target.options().read_directory_plus) {
    xdr::Encode(results, READDIR3res(NFS3ERR_NOTSUPP));
    co_return;
  }
  const rpc::ReplyRoom room(request.call.peer, std::min(maximum, request.settings.max_directory));
  Entries entries(target, request.buffers(), plus, static_cast<uint32_t>(room.octets()), names);
  const fs::ReadDirectoryArguments arguments{.cookie = fs::Cookie(place.cookie),
                                             .verifier = FromVerifier<fs::CookieVerifier>(place.verifier),
                                             .with_nodes = plus};
  const auto observed =
      co_await target.file_system().ReadDirectory(target.context(), target.object(), arguments, entries);
  const post_op_attr attributes = ToPostAttributes(observed.attributes);
  const nfsstat3 status = entries.is_starved()  ? NFS3ERR_JUKEBOX
                          : entries.too_small() ? NFS3ERR_TOOSMALL
                                                : StatusOf(observed.result);
  if (status != NFS3_OK) {
    request.call.outcome.status = static_cast<uint32_t>(status);
    xdr::Encode(results, READDIR3res(status, READDIR3resfail{.dir_attributes = attributes}));
    co_return;
  }
  xdr::Encode(results, NFS3_OK);
  xdr::Encode(results, attributes);
  xdr::Encode(results, ToVerifier(observed.result->verifier));
  entries.MoveTo(results);
  results.Bool(false);
  results.Bool(observed.result->eof);
}

}  // namespace

// RFC 1813 §3.3.16
Task<> ReadDirectory(Request request, const READDIR3args& arguments, xdr::Encoder& results) {
  const Place place{arguments.dir, arguments.cookie, arguments.cookieverf};
  return ReadEntries(request, place, false, arguments.count, 0, results);
}

// RFC 1813 §3.3.17
Task<> ReadDirectoryPlus(Request request, const READDIRPLUS3args& arguments, xdr::Encoder& results) {
  const Place place{arguments.dir, arguments.cookie, arguments.cookieverf};
  return ReadEntries(request, place, true, arguments.maxcount, arguments.dircount, results);
}

}  // namespace penstock::nfs::v3
