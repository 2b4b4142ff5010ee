#include "nfs4_worker.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace penstock::simulation {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881
using client::Status;
using client::v4::GetHandle;

Task<void> Nfs4Worker::MakeDirectory() { co_return; }

Task<void> Nfs4Worker::Act() {
  auto* entry = Pick({});
  switch (world_.random().Below(18)) {
    case 0:
    case 1:
      return Lookup();
    case 2:
    case 3:
      return Remove();
    case 4:
    case 5:
      if (entry && files_[entry->first].stateid) return CloseFile(files_[entry->first]);
      if (entry) return Open(entry->first);
      return Create();
    case 6:
    case 7:
    case 8:
      return Create();
    case 9:
      return List();
    case 10:
    case 11:
      return Read();
    case 12:
      return Rename();
    case 13:
      return Link();
    case 14:
    case 15:
      return facts_.splits ? WritePieces() : Write();
    default:
      return Write();
  }
}

Task<std::optional<bool>> Nfs4Worker::IsThere(const std::string& name) {
  while (findings_.empty()) {
    auto reply = co_await Ask("LOOKUP", {}, PUTFH4args{directory_}, LOOKUP4args{component4(name)}, GetHandle());
    if (reply) {
      files_[name].handle = std::get<2>(reply->results).resok4().object;
      co_return true;
    }
    if (refused_ == Status::kNotFound) co_return false;
    if (refused_ && !IsDisksFault(*refused_)) Unexpected("LOOKUP", client::Describe(*refused_));
  }
  co_return std::nullopt;
}

Task<void> Nfs4Worker::Lookup() {
  const auto* entry = world_.random().Chance(0.8) ? Pick({}) : nullptr;
  const std::string name = entry ? entry->first : NewName();
  const auto found = co_await IsThere(name);
  if (!entry) files_.erase(name);
  if (found) Expect(*found == (entry != nullptr), "LOOKUP gives a wrong result");
}

// A second execution would fail with NFS4ERR_EXIST.
Task<void> Nfs4Worker::Create() {
  const std::string name = NewName();
  const openflag4 how(OPEN4_CREATE, createhow4(GUARDED4, fattr4{}));
  uint64_t first_epoch = 0, epoch = 0;
  const auto build = [&] {
    epoch = session_.epoch();
    if (first_epoch == 0) first_epoch = epoch;
    return std::tuple(PUTFH4args{directory_}, MakeOpen(how, open_claim4(CLAIM_NULL, component4(name))), GetHandle());
  };
  auto reply = co_await Ask("OPEN", {}, build);
  // The OPEN was executed before the server was killed. The restart discarded its state, and the session sent the OPEN
  // again.
  if (refused_ == Status::kExists && epoch != first_epoch) refused_.reset();
  if (!reply && refused_ && IsDisksFault(*refused_)) co_return;
  if (!reply && refused_) co_return Unexpected("OPEN of a new name", client::Describe(*refused_));
  if (!reply) {
    if (!(co_await IsThere(name)).value_or(false)) co_return void(files_.erase(name));
    files_[name].doubtful = true;
    entries_[name] = {};
    co_return;
  }
  File& file = files_[name];
  file.handle = std::get<2>(reply->results).resok4().object;
  HandleOpened(file, std::get<1>(reply->results), first_epoch, epoch);
  entries_[name] = {};
}

// A second execution would fail with NFS4ERR_NOENT.
Task<bool> Nfs4Worker::RemoveName(const std::string& name) {
  auto reply = co_await Ask("REMOVE", {}, PUTFH4args{directory_}, REMOVE4args{component4(name)});
  if (!reply && refused_ && !IsDisksFault(*refused_)) Unexpected("REMOVE", client::Describe(*refused_));
  if (!reply && (refused_ || (co_await IsThere(name)).value_or(true))) co_return false;
  co_return true;
}

Task<void> Nfs4Worker::Remove() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  const std::string name = entry->first;
  co_await Release(name);
  const bool removed = co_await RemoveName(name);
  if (!removed) co_return;
  entries_.erase(name);
  files_.erase(name);
}

void Nfs4Worker::HandleRenamed(const std::string& from, const std::string& to) {
  entries_[to] = entries_.extract(from).mapped();
  files_[to] = files_.extract(from).mapped();
}

// A second execution would fail with NFS4ERR_NOENT. An open file stays open under its new name.
Task<void> Nfs4Worker::Rename() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  const std::string from = entry->first;
  const auto* over = world_.random().Chance(0.3) ? Pick({}) : nullptr;
  const std::string to = over && over != entry ? over->first : NewName();
  if (entries_.contains(to)) co_await Release(to);
  auto reply = co_await Ask("RENAME", {}, PUTFH4args{directory_}, client::v4::SaveHandle(), PUTFH4args{directory_},
                            RENAME4args{component4(from), component4(to)});
  if (!reply && refused_ && IsDisksFault(*refused_)) co_return;
  if (!reply && refused_) co_return Unexpected("RENAME", client::Describe(*refused_));
  if (!reply && (co_await IsThere(from)).value_or(true)) co_return;
  HandleRenamed(from, to);
}

// A second execution would fail with NFS4ERR_EXIST. The worker then removes the old name, so that each file has one
// name.
Task<void> Nfs4Worker::Link() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  const std::string from = entry->first;
  const std::string to = NewName();
  auto reply = co_await Ask("LINK", {}, PUTFH4args{files_[from].handle}, client::v4::SaveHandle(),
                            PUTFH4args{directory_}, LINK4args{component4(to)});
  if (!reply && refused_ && IsDisksFault(*refused_)) co_return;
  if (!reply && refused_) co_return Unexpected("LINK", client::Describe(*refused_));
  if (!reply && !(co_await IsThere(to)).value_or(false)) co_return void(files_.erase(to));
  for (bool removed = false; !removed && findings_.empty();) removed = co_await RemoveName(from);
  if (findings_.empty()) HandleRenamed(from, to);
}

// Closes the file. If the server may have it open, opens it first, so that the server certainly has no open left
// afterwards.
Task<void> Nfs4Worker::Release(const std::string& name) {
  File& file = files_[name];
  while ((file.stateid || file.doubtful) && findings_.empty()) {
    if (file.stateid) {
      co_await CloseFile(file);
    } else {
      co_await Open(name);
    }
  }
}

Task<void> Nfs4Worker::Finish() {
  for (const auto& [name, entry] : entries_) co_await Release(name);
}

Task<void> Nfs4Worker::Reclaim() {
  for (auto& [name, file] : files_) co_await ReclaimFile(file);
}

// ---- data ----

Task<void> Nfs4Worker::Write() {
  auto* entry = Pick({});
  if (!entry) co_return;
  File& file = files_[entry->first];
  if (!file.stateid) co_return co_await Open(entry->first);
  std::string& content = entry->second.content;
  const std::string text = Text(longest_write());
  const uint64_t offset = world_.random().Below(std::min<size_t>(content.size(), 100'000) + 1);
  const stable_how4 stable = world_.random().Chance(0.5) ? UNSTABLE4 : FILE_SYNC4;
  uint64_t epoch = 0;
  const auto build = [&] {
    epoch = session_.epoch();
    return std::tuple(PUTFH4args{file.handle},
                      WRITE4args{StateIdOf(file), offset, stable, xdr::Payload<>::Borrowed(text)});
  };
  Reply<PUTFH4args, WRITE4args> reply;
  // A WRITE without a reply may have been executed; a WRITE that failed was not. Repeating it does no harm in either
  // case.
  while (!reply && findings_.empty()) {
    reply = co_await Ask("WRITE", {}, build);
    if (!reply && IsOutdated(epoch)) continue;
    if (!reply && refused_ && !IsDisksFault(*refused_)) co_return Unexpected("WRITE", client::Describe(*refused_));
  }
  if (!reply) co_return;
  Expect(std::get<1>(reply->results).resok4().count == text.size(), "WRITE returns a short count");
  if (content.size() < offset + text.size()) content.resize(offset + text.size());
  content.replace(offset, text.size(), text);
}

Task<void> Nfs4Worker::WritePieces() {
  auto* entry = Pick({});
  if (!entry) co_return;
  File& file = files_[entry->first];
  if (!file.stateid) co_return co_await Open(entry->first);
  std::string& content = entry->second.content;
  const std::string first = Text(longest_write()), second = Text(longest_write()), third = Text(longest_write());
  const uint64_t offset = world_.random().Below(std::min<size_t>(content.size(), 100'000) + 1);
  const auto write = [&](uint64_t at, std::string_view text) {
    return WRITE4args{StateIdOf(file), at, FILE_SYNC4, xdr::Payload<>::Borrowed(text)};
  };
  uint64_t epoch = 0;
  const auto build = [&] {
    epoch = session_.epoch();
    return std::tuple(PUTFH4args{file.handle}, write(offset, first), write(offset + first.size(), second),
                      write(offset + first.size() + second.size(), third));
  };
  bool done = false;
  while (!done && findings_.empty()) {
    const auto reply = co_await Ask("WRITE of pieces", {}, build);
    done = reply.has_value();
    if (!done && IsOutdated(epoch)) continue;
    if (!done && refused_ && !IsDisksFault(*refused_)) {
      co_return Unexpected("WRITE of pieces", client::Describe(*refused_));
    }
  }
  const std::string text = first + second + third;
  if (content.size() < offset + text.size()) content.resize(offset + text.size());
  content.replace(offset, text.size(), text);
}

Task<void> Nfs4Worker::Read() {
  const auto* entry = Pick({});
  if (!entry) co_return;
  const File& file = files_[entry->first];
  if (!file.stateid) co_return co_await Open(entry->first);
  const std::string& content = entry->second.content;
  const uint64_t offset = world_.random().Below(content.size() + 2);
  const auto count = static_cast<uint32_t>(world_.random().Between(1, longest_read()));
  std::vector<std::byte> destination(world_.random().Chance(0.5) ? count : 0);
  uint64_t epoch = 0;
  const auto build = [&] {
    epoch = session_.epoch();
    return std::tuple(PUTFH4args{file.handle}, READ4args{StateIdOf(file), offset, count});
  };
  auto reply = co_await Ask("READ", destination, build);
  if (!reply && refused_ && !IsOutdated(epoch) && !IsDisksFault(*refused_))
    co_return Unexpected("READ", client::Describe(*refused_));
  if (!reply) {
    destination = {};  // AddressSanitizer detects a late write to it
    co_return;
  }
  const READ4resok& read = std::get<1>(reply->results).resok4();
  const std::string_view right =
      offset < content.size() ? std::string_view(content).substr(offset, count) : std::string_view();
  Expect(read.data.text() == right, "READ returns wrong octets");
  Expect(read.eof == (offset + count >= content.size()), "READ returns a wrong eof");
}

Task<void> Nfs4Worker::List() {
  READDIR4args arguments{.cookie = 0, .cookieverf = {}, .dircount = 8000, .maxcount = 0, .attr_request = {}};
  arguments.maxcount = static_cast<count4>(world_.random().Between(1500, 20'000));
  if (is_bound()) arguments.maxcount = std::min<count4>(arguments.maxcount, session_.max_response() - 88);
  std::set<std::string> names;
  for (bool end = false; !end;) {
    auto reply = co_await Ask("READDIR", {}, PUTFH4args{directory_}, arguments);
    if (!reply && refused_ && IsDisksFault(*refused_)) co_return;
    if (!reply && refused_) co_return Unexpected("READDIR", client::Describe(*refused_));
    if (!reply) co_return;
    const READDIR4resok& read = std::get<1>(reply->results).resok4();
    for (const entry4& entry : read.reply.entries) {
      arguments.cookie = entry.cookie;
      Expect(names.emplace(entry.name).second, "READDIR returns an entry twice");
      Expect(entries_.contains(std::string(entry.name)), "READDIR returns an unknown entry");
    }
    arguments.cookieverf = read.cookieverf;
    end = read.reply.eof;
    if (!end && read.reply.entries.empty()) co_return Unexpected("READDIR", "returns no entries before the end");
  }
  Expect(names.size() == entries_.size(), "READDIR omits entries");
}

}  // namespace penstock::simulation
