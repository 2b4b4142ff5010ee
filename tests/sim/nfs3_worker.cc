#include "nfs3_worker.h"

#include <set>
#include <vector>

namespace penstock::simulation {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

template <class Procedure>
Task<std::optional<rpc::Reply<typename Procedure::Results>>> Nfs3Worker::Ask(typename Procedure::Arguments arguments,
                                                                             Bytes destination) {
  HandleCall(Procedure::kName);
  rpc::ReplyBounds bounds;
  if constexpr (!std::same_as<typename Procedure::Results, xdr::Void>) {
    bounds = nfs_protocol::ReplyBoundsOf<Procedure>(arguments, destination);
  }
  auto reply = co_await client_.Call<Procedure>(arguments, std::move(bounds));
  if (reply) co_return *std::move(reply);
  const bool refused =
      reply.error().kind == rpc::Error::Kind::kTransport && reply.error().transport == rpc::CallError::kRefused;
  if (!refused || !facts_.may_be_refused) {
    Unexpected(Procedure::kName, rpc::Describe(reply.error()));
  }
  world_.Trace("{}: {} has no reply", name(), Procedure::kName);
  co_await Sleep(world_, facts_.longest_execution);
  co_return std::nullopt;
}

Task<void> Nfs3Worker::MakeDirectory() {
  std::optional<rpc::Reply<MKDIR3res>> reply;
  do {
    reply = co_await Ask<NFSPROC3_MKDIR>({{root_, name()}, {.mode = 0755}});
    if (!reply) co_return;
  } while (IsDisksFault(reply->results.status()) && findings_.empty());
  if (reply->results.status() != NFS3_OK) co_return Unexpected("MKDIR", XdrName(reply->results.status()));
  directory_ = *reply->results.resok().obj;
}

Task<void> Nfs3Worker::Act() {
  switch (world_.random().Below(20)) {
    case 0:
      return Ping();
    case 1:
      return GetAttributes();
    case 2:
      return Lookup();
    case 3:
      return Commit();
    case 4:
    case 5:
      return Remove();
    case 6:
    case 7:
      return Rename();
    case 8:
    case 9:
    case 10:
      return Create();
    case 11:
    case 12:
    case 13:
      return Write();
    case 14:
    case 15:
      return Read();
    case 16:
      return MakeSymlink();
    case 17:
      return ReadLink();
    default:
      return List();
  }
}

Task<void> Nfs3Worker::Ping() { co_await Ask<NFSPROC3_NULL>({}); }

Task<void> Nfs3Worker::GetAttributes() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  auto reply = co_await Ask<NFSPROC3_GETATTR>({handles_.at(entry->first)});
  if (!reply) co_return;
  Expect(
      reply->results.status() == NFS3_OK && reply->results.resok().obj_attributes.size == entry->second.content.size(),
      "GETATTR returns a wrong size");
}

Task<void> Nfs3Worker::Lookup() {
  const auto* entry = world_.random().Chance(0.8) ? Pick({}) : nullptr;
  const std::string name = entry ? entry->first : NewName();
  auto reply = co_await Ask<NFSPROC3_LOOKUP>({{directory_, name}});
  if (!reply) co_return;
  if (entry) {
    Expect(reply->results.status() == NFS3_OK && reply->results.resok().object == handles_.at(entry->first),
           "LOOKUP does not find an existing entry");
  } else {
    Expect(reply->results.status() == NFS3ERR_NOENT, "LOOKUP finds a name that does not exist");
  }
}

// A second execution would fail with NFS3ERR_EXIST.
Task<void> Nfs3Worker::Create() {
  const std::string name = NewName();
  auto reply = co_await Ask<NFSPROC3_CREATE>({{directory_, name}, createhow3(GUARDED, sattr3{.mode = 0644})});
  if (!reply) co_return;
  if (IsDisksFault(reply->results.status())) co_return;
  if (reply->results.status() != NFS3_OK) co_return Unexpected("CREATE", XdrName(reply->results.status()));
  entries_[name] = {false, {}};
  handles_[name] = *reply->results.resok().obj;
}

// A second execution would fail with NFS3ERR_NOENT.
Task<void> Nfs3Worker::Remove() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  const std::string name = entry->first;
  auto reply = co_await Ask<NFSPROC3_REMOVE>({{directory_, name}});
  if (!reply) co_return;
  if (IsDisksFault(reply->results.status())) co_return;
  if (reply->results.status() != NFS3_OK) co_return Unexpected("REMOVE", XdrName(reply->results.status()));
  entries_.erase(name);
}

Task<void> Nfs3Worker::Rename() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  const std::string from = entry->first;
  const auto* over = world_.random().Chance(0.3) ? Pick({}) : nullptr;
  const std::string to = over && over != entry ? over->first : NewName();
  auto reply = co_await Ask<NFSPROC3_RENAME>({{directory_, from}, {directory_, to}});
  if (!reply) co_return;
  if (IsDisksFault(reply->results.status())) co_return;
  if (reply->results.status() != NFS3_OK) co_return Unexpected("RENAME", XdrName(reply->results.status()));
  entries_[to] = entries_.extract(from).mapped();
  handles_[to] = handles_.extract(from).mapped();
}

Task<void> Nfs3Worker::Write() {
  auto* entry = Pick(false);
  if (!entry) co_return;
  std::string& content = entry->second.content;
  const std::string text = Text(facts_.max_payload);
  const uint64_t offset = world_.random().Below(std::min<size_t>(content.size(), 100'000) + 1);
  const stable_how stable = world_.random().Chance(0.5) ? UNSTABLE : FILE_SYNC;
  const auto count = static_cast<uint32_t>(text.size());
  std::optional<rpc::Reply<WRITE3res>> reply;
  // A WRITE without a reply may have been executed; a WRITE that failed was not. Repeating it does no harm in either
  // case.
  while ((!reply || IsDisksFault(reply->results.status())) && findings_.empty()) {
    reply = co_await Ask<NFSPROC3_WRITE>(
        {handles_.at(entry->first), offset, count, stable, xdr::Payload<>::Borrowed(text)});
  }
  if (!reply) co_return;
  if (reply->results.status() != NFS3_OK) co_return Unexpected("WRITE", XdrName(reply->results.status()));
  Expect(reply->results.resok().count == count, "WRITE returns a short count");
  if (content.size() < offset + count) content.resize(offset + count);
  content.replace(offset, count, text);
}

Task<void> Nfs3Worker::Read() {
  const auto* entry = Pick(false);
  if (!entry) co_return;
  const std::string& content = entry->second.content;
  const uint64_t offset = world_.random().Below(content.size() + 2);
  const auto count = static_cast<uint32_t>(world_.random().Between(1, facts_.max_payload));
  std::vector<std::byte> destination(world_.random().Chance(0.5) ? count : 0);
  auto reply = co_await Ask<NFSPROC3_READ>({handles_.at(entry->first), offset, count}, destination);
  if (!reply) {
    destination = {};  // AddressSanitizer detects a late write to it
    co_return;
  }
  if (IsDisksFault(reply->results.status())) co_return;
  if (reply->results.status() != NFS3_OK) co_return Unexpected("READ", XdrName(reply->results.status()));
  const READ3resok& read = reply->results.resok();
  const std::string_view right =
      offset < content.size() ? std::string_view(content).substr(offset, count) : std::string_view();
  Expect(read.count == right.size() && read.data.text() == right, "READ returns wrong octets");
  Expect(read.eof == (offset + count >= content.size()), "READ returns a wrong eof");
}

Task<void> Nfs3Worker::MakeSymlink() {
  const std::string name = NewName();
  const std::string target = Text(std::min<size_t>(facts_.max_payload, 4000));
  auto reply = co_await Ask<NFSPROC3_SYMLINK>({{directory_, name}, {{.mode = 0777}, xdr::Payload<>::Borrowed(target)}});
  if (reply) {
    if (IsDisksFault(reply->results.status())) co_return;
    if (reply->results.status() != NFS3_OK) {
      co_return Unexpected("SYMLINK", XdrName(reply->results.status()));
    }
    entries_[name] = {true, target};
    handles_[name] = *reply->results.resok().obj;
    co_return;
  }
  auto found = co_await Ask<NFSPROC3_LOOKUP>({{directory_, name}});
  if (!found || found->results.status() != NFS3_OK) co_return;
  entries_[name] = {true, target};
  handles_[name] = found->results.resok().object;
}

Task<void> Nfs3Worker::ReadLink() {
  const auto* entry = Pick(true);
  if (!entry) co_return;
  auto reply = co_await Ask<NFSPROC3_READLINK>({handles_.at(entry->first)});
  if (!reply) co_return;
  if (IsDisksFault(reply->results.status())) co_return;
  Expect(reply->results.status() == NFS3_OK && reply->results.resok().data.text() == entry->second.content,
         "READLINK returns a wrong path");
}

Task<void> Nfs3Worker::List() {
  const auto octets = static_cast<uint32_t>(world_.random().Between(1500, 20'000));
  std::set<std::string> names;
  cookie3 cookie = 0;
  cookieverf3 verifier{};
  for (bool end = false; !end;) {
    auto reply = co_await Ask<NFSPROC3_READDIRPLUS>({directory_, cookie, verifier, octets, octets});
    if (!reply) co_return;
    if (IsDisksFault(reply->results.status())) co_return;
    if (reply->results.status() != NFS3_OK) {
      co_return Unexpected("READDIRPLUS", XdrName(reply->results.status()));
    }
    const READDIRPLUS3resok& read = reply->results.resok();
    for (const entryplus3& entry : read.reply.entries) {
      cookie = entry.cookie;
      if (entry.name == "." || entry.name == "..") continue;
      Expect(names.emplace(entry.name).second, "READDIRPLUS returns an entry twice");
      const auto known = entries_.find(std::string(entry.name));
      Expect(known != entries_.end() && entry.name_handle == handles_.at(known->first) && entry.name_attributes &&
                 entry.name_attributes->size == known->second.content.size(),
             "READDIRPLUS returns an unknown entry or wrong attributes");
    }
    verifier = read.cookieverf;
    end = read.reply.eof;
    if (!end && read.reply.entries.empty()) co_return Unexpected("READDIRPLUS", "returns no entries before the end");
  }
  Expect(names.size() == entries_.size(), "READDIRPLUS omits entries");
}

Task<void> Nfs3Worker::Commit() {
  const auto* entry = Pick(false);
  if (!entry) co_return;
  auto reply = co_await Ask<NFSPROC3_COMMIT>({handles_.at(entry->first), 0, 0});
  if (reply) Expect(reply->results.status() == NFS3_OK || IsDisksFault(reply->results.status()), "COMMIT failed");
}

}  // namespace penstock::simulation
