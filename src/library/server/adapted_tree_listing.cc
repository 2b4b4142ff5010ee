// The method of AdaptedTree that lists directories.
#include <utility>

#include "library/server/adapted_tree.h"

namespace penstock::library {

using fs::Error;
using fs::Handle;
using fs::RequestContext;
using fs::Result;

namespace {

// The cookies of "." and "..".
constexpr uint64_t kDot = 1, kDotDot = 2;
// How many entries are taken from the host at once.
constexpr size_t kBatch = 128;

}  // namespace

Result<bool> AdaptedTree::Complete(EmbeddedCalls& calls, const Object& directory, const std::string& name,
                                   std::optional<penstock_handle> handle, fs::DirectoryEntry& entry) {
  const auto is_gone = [](Error error) { return error == Error::kNoEnt || error == Error::kStale; };
  if (!handle) {
    const auto found = calls.Lookup(directory.handle, name);
    if (!found && is_gone(found.error())) return false;
    if (!found) return std::unexpected(found.error());
    handle = *found;
  }
  if (!entry.attributes) {
    const auto attributes = AttributesOf(calls, *handle);
    if (!attributes && is_gone(attributes.error())) return false;
    if (!attributes) return std::unexpected(attributes.error());
    entry.attributes = *attributes;
  }
  entry.attributes->fsid = fsid_;
  entry.handle = HandleOf(*handle);
  return true;
}

// The host may hold a lock while it gives entries, so its other functions are called afterwards.
Result<bool> AdaptedTree::List(EmbeddedCalls& calls, const Object& directory,
                               const fs::ReadDirectoryArguments& arguments, fs::EntrySink& sink) {
  const bool may_search = RightsTo(calls, directory).execute;
  const auto add = [&](fs::DirectoryEntry& entry, const std::string& name,
                       std::optional<penstock_handle> handle) -> Result<bool> {
    if (arguments.with_nodes && !may_search) {
      entry.attributes.reset();
      entry.error = Error::kAccess;
    } else if (arguments.with_nodes) {
      const Result<bool> exists = Complete(calls, directory, name, handle, entry);
      if (exists && !*exists) return true;
      if (!exists) {
        if (exists.error() != Error::kDelay && exists.error() != Error::kAccess) return std::unexpected(exists.error());
        entry.attributes.reset();
        entry.error = exists.error();
      }
    } else {
      entry.attributes.reset();
    }
    return sink.Add(entry);
  };

  uint64_t cookie = arguments.cookie.value();
  if (cookie < kDot) {
    fs::DirectoryEntry dot{.fileid = directory.attributes.fileid, .name = ".", .cookie = fs::Cookie(kDot)};
    dot.attributes = directory.attributes;
    PENSTOCK_TRY(const bool taken, add(dot, ".", directory.handle));
    if (!taken) return false;
  }
  if (cookie < kDotDot) {
    Object parent = directory;
    if (!IsRoot(directory.handle)) {
      PENSTOCK_TRY(parent.handle, calls.Lookup(directory.handle, ".."));
      PENSTOCK_TRY(parent.attributes, AttributesOf(calls, parent.handle));
    }
    fs::DirectoryEntry up{.fileid = parent.attributes.fileid, .name = "..", .cookie = fs::Cookie(kDotDot)};
    up.attributes = parent.attributes;
    PENSTOCK_TRY(const bool taken, add(up, "..", parent.handle));
    if (!taken) return false;
  }
  if (cookie <= kDotDot) cookie = 0;

  struct Kept {
    std::string name;
    EmbeddedCalls::Entry entry;
  };
  for (;;) {
    std::vector<Kept> batch;
    const auto keep = [&](const EmbeddedCalls::Entry& entry) {
      if (batch.size() == kBatch) return false;
      batch.push_back({std::string(entry.name), entry});
      return true;
    };
    PENSTOCK_TRY(const bool ended, calls.ReadDirectory(directory.handle, cookie, keep));
    for (const Kept& each : batch) {
      fs::DirectoryEntry entry{
          .fileid = each.entry.file_id, .name = each.name, .cookie = fs::Cookie(each.entry.cookie)};
      entry.attributes = each.entry.attributes;
      PENSTOCK_TRY(const bool taken, add(entry, each.name, each.entry.handle));
      if (!taken) return false;
    }
    if (ended) return true;
    const uint64_t next = batch.back().entry.cookie;
    if (next == cookie) {
      files_->Blame("read_directory", "continues after a cookie with the same cookie");
      return std::unexpected(Error::kServerFault);
    }
    cookie = next;
  }
}

fs::Observed<fs::ReadDirectoryReply> AdaptedTree::ReadDirectory(const RequestContext& context, const Handle& directory,
                                                                const fs::ReadDirectoryArguments& arguments,
                                                                fs::EntrySink& sink) {
  using Reply = fs::ReadDirectoryReply;
  return Observe<Reply>(context, directory, [&](EmbeddedCalls& calls, const Object& found) -> Result<Reply> {
    if (!found.is_directory()) return std::unexpected(Error::kNotDir);
    if (!RightsTo(calls, found).read) return std::unexpected(Error::kAccess);
    const Result<bool> ended = List(calls, found, arguments, sink);
    if (!ended) return std::unexpected(ended.error() == Error::kInvalid ? Error::kBadCookie : ended.error());
    return Reply{.verifier = {}, .eof = *ended};
  });
}

}  // namespace penstock::library
