#include "worker.h"

#include <set>
#include <vector>

namespace penstock::simulation {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

template <class Procedure>
Task<std::optional<rpc::Reply<typename Procedure::Results>>> Worker::Ask(typename Procedure::Arguments arguments,
                                                                         Bytes destination) {
  ++calls_;
  world_.Trace("{}: {}", name_, Procedure::kName);
  rpc::ReplyBounds bounds;
  if constexpr (!std::same_as<typename Procedure::Results, xdr::Void>) {
    bounds = nfs::v3::ReplyBoundsOf<Procedure>(arguments, destination);
  }
  auto reply = co_await client_.Call<Procedure>(arguments, std::move(bounds));
  if (reply) co_return *std::move(reply);
  const bool refused =
      reply.error().kind == rpc::Error::Kind::kTransport && reply.error().transport == rpc::CallError::kRefused;
  if (!refused || !may_be_refused_) {
    findings_.Add("{}: {} failed: {}", name_, Procedure::kName, rpc::Describe(reply.error()));
  }
  world_.Trace("{}: {} has no reply", name_, Procedure::kName);
  co_return std::nullopt;
}

void Worker::Expect(bool right, std::string_view what) {
  if (!right) findings_.Add("{}: {}", name_, what);
}

Task<void> Worker::Run(unsigned calls) {
  co_await MakeDirectory();
  while (calls_ < calls && findings_.empty()) co_await Act();
  done_ = true;
}

Task<void> Worker::MakeDirectory() {
  auto reply = co_await Ask<NFSPROC3_MKDIR>({{root_, name_}, {.mode = 0755}});
  if (!reply) co_return;
  if (reply->results.status() != NFS3_OK)
    co_return findings_.Add("{}: MKDIR: {}", name_, XdrName(reply->results.status()));
  directory_ = *reply->results.resok().obj;
}

Task<void> Worker::Act() {
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

Task<void> Worker::Ping() { co_await Ask<NFSPROC3_NULL>({}); }

Task<void> Worker::GetAttributes() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  auto reply = co_await Ask<NFSPROC3_GETATTR>({entry->second.handle});
  if (!reply) co_return;
  Expect(
      reply->results.status() == NFS3_OK && reply->results.resok().obj_attributes.size == entry->second.content.size(),
      "GETATTR gives another size");
}

Task<void> Worker::Lookup() {
  const auto* entry = world_.random().Chance(0.8) ? Pick({}) : nullptr;
  const std::string name = entry ? entry->first : NewName();
  auto reply = co_await Ask<NFSPROC3_LOOKUP>({{directory_, name}});
  if (!reply) co_return;
  if (entry) {
    Expect(reply->results.status() == NFS3_OK && reply->results.resok().object == entry->second.handle,
           "LOOKUP does not find the entry");
  } else {
    Expect(reply->results.status() == NFS3ERR_NOENT, "LOOKUP finds what is not there");
  }
}

// A second execution would say EXIST.
Task<void> Worker::Create() {
  const std::string name = NewName();
  auto reply = co_await Ask<NFSPROC3_CREATE>({{directory_, name}, createhow3(GUARDED, sattr3{.mode = 0644})});
  if (!reply) co_return;
  if (reply->results.status() != NFS3_OK)
    co_return findings_.Add("{}: CREATE: {}", name_, XdrName(reply->results.status()));
  entries_[name] = {false, {}, *reply->results.resok().obj};
}

// A second execution would say NOENT.
Task<void> Worker::Remove() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  const std::string name = entry->first;
  auto reply = co_await Ask<NFSPROC3_REMOVE>({{directory_, name}});
  if (!reply) co_return;
  if (reply->results.status() != NFS3_OK)
    co_return findings_.Add("{}: REMOVE: {}", name_, XdrName(reply->results.status()));
  entries_.erase(name);
}

Task<void> Worker::Rename() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  const std::string from = entry->first;
  const auto* over = world_.random().Chance(0.3) ? Pick({}) : nullptr;
  const std::string to = over && over != entry ? over->first : NewName();
  auto reply = co_await Ask<NFSPROC3_RENAME>({{directory_, from}, {directory_, to}});
  if (!reply) co_return;
  if (reply->results.status() != NFS3_OK)
    co_return findings_.Add("{}: RENAME: {}", name_, XdrName(reply->results.status()));
  entries_[to] = entries_.extract(from).mapped();
}

Task<void> Worker::Write() {
  auto* entry = Pick(false);
  if (!entry) co_return;
  std::string& content = entry->second.content;
  const std::string text = Text(max_payload_);
  const uint64_t offset = world_.random().Below(std::min<size_t>(content.size(), 100'000) + 1);
  const stable_how stable = world_.random().Chance(0.5) ? UNSTABLE : FILE_SYNC;
  const auto count = static_cast<uint32_t>(text.size());
  std::optional<rpc::Reply<WRITE3res>> reply;
  // Without a reply it may have been executed or not; again does no harm.
  while (!reply && findings_.empty()) {
    reply = co_await Ask<NFSPROC3_WRITE>({entry->second.handle, offset, count, stable, xdr::Payload<>::Borrowed(text)});
  }
  if (!reply) co_return;
  if (reply->results.status() != NFS3_OK)
    co_return findings_.Add("{}: WRITE: {}", name_, XdrName(reply->results.status()));
  Expect(reply->results.resok().count == count, "WRITE has written less");
  if (content.size() < offset + count) content.resize(offset + count);
  content.replace(offset, count, text);
}

Task<void> Worker::Read() {
  const auto* entry = Pick(false);
  if (!entry) co_return;
  const std::string& content = entry->second.content;
  const uint64_t offset = world_.random().Below(content.size() + 2);
  const auto count = static_cast<uint32_t>(world_.random().Between(1, max_payload_));
  std::vector<std::byte> destination(world_.random().Chance(0.5) ? count : 0);
  auto reply = co_await Ask<NFSPROC3_READ>({entry->second.handle, offset, count}, destination);
  if (!reply) {
    destination = {};  // whoever writes to it now is noticed
    co_return;
  }
  if (reply->results.status() != NFS3_OK)
    co_return findings_.Add("{}: READ: {}", name_, XdrName(reply->results.status()));
  const READ3resok& read = reply->results.resok();
  const std::string_view right =
      offset < content.size() ? std::string_view(content).substr(offset, count) : std::string_view();
  Expect(read.count == right.size() && read.data.text() == right, "READ gives other octets");
  Expect(read.eof == (offset + count >= content.size()), "READ is wrong about the end of the file");
}

Task<void> Worker::MakeSymlink() {
  const std::string name = NewName();
  const std::string target = Text(std::min<size_t>(max_payload_, 4000));
  auto reply = co_await Ask<NFSPROC3_SYMLINK>({{directory_, name}, {{.mode = 0777}, xdr::Payload<>::Borrowed(target)}});
  if (reply) {
    if (reply->results.status() != NFS3_OK) {
      co_return findings_.Add("{}: SYMLINK: {}", name_, XdrName(reply->results.status()));
    }
    entries_[name] = {true, target, *reply->results.resok().obj};
    co_return;
  }
  auto found = co_await Ask<NFSPROC3_LOOKUP>({{directory_, name}});
  if (found && found->results.status() == NFS3_OK) entries_[name] = {true, target, found->results.resok().object};
}

Task<void> Worker::ReadLink() {
  const auto* entry = Pick(true);
  if (!entry) co_return;
  auto reply = co_await Ask<NFSPROC3_READLINK>({entry->second.handle});
  if (!reply) co_return;
  Expect(reply->results.status() == NFS3_OK && reply->results.resok().data.text() == entry->second.content,
         "READLINK gives another path");
}

Task<void> Worker::List() {
  const auto octets = static_cast<uint32_t>(world_.random().Between(1500, 20'000));
  std::set<std::string> names;
  cookie3 cookie = 0;
  cookieverf3 verifier{};
  for (bool end = false; !end;) {
    auto reply = co_await Ask<NFSPROC3_READDIRPLUS>({directory_, cookie, verifier, octets, octets});
    if (!reply) co_return;
    if (reply->results.status() != NFS3_OK) {
      co_return findings_.Add("{}: READDIRPLUS: {}", name_, XdrName(reply->results.status()));
    }
    const READDIRPLUS3resok& read = reply->results.resok();
    for (const entryplus3& entry : read.reply.entries) {
      cookie = entry.cookie;
      if (entry.name == "." || entry.name == "..") continue;
      Expect(names.emplace(entry.name).second, "READDIRPLUS gives an entry twice");
      const auto known = entries_.find(std::string(entry.name));
      Expect(known != entries_.end() && entry.name_handle == known->second.handle && entry.name_attributes &&
                 entry.name_attributes->size == known->second.content.size(),
             "READDIRPLUS gives what is not there");
    }
    verifier = read.cookieverf;
    end = read.reply.eof;
    if (!end && read.reply.entries.empty()) co_return findings_.Add("{}: READDIRPLUS does not get on", name_);
  }
  Expect(names.size() == entries_.size(), "READDIRPLUS leaves entries out");
}

Task<void> Worker::Commit() {
  const auto* entry = Pick(false);
  if (!entry) co_return;
  auto reply = co_await Ask<NFSPROC3_COMMIT>({entry->second.handle, 0, 0});
  if (reply) Expect(reply->results.status() == NFS3_OK, "COMMIT failed");
}

std::string Worker::NewName() {
  std::string name = fmt::format("{}-", names_++);
  name.append(world_.random().Below(world_.random().Chance(0.2) ? 200 : 8), 'n');
  return name;
}

std::string Worker::Text(size_t most) {
  std::string text(world_.random().Between(1, most), ' ');
  uint64_t state = world_.random().Next();
  for (char& c : text) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>('a' + (state >> 60));
  }
  return text;
}

std::pair<const std::string, Worker::Entry>* Worker::Pick(std::optional<bool> symlink) {
  std::vector<std::pair<const std::string, Entry>*> candidates;
  for (auto& entry : entries_) {
    if (!symlink || entry.second.symlink == *symlink) candidates.push_back(&entry);
  }
  return candidates.empty() ? nullptr : candidates[world_.random().Below(candidates.size())];
}

}  // namespace penstock::simulation
