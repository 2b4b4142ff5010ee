#include "copying/copier.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/result.h"
#include "client/pieces.h"

namespace penstock::copying {
namespace {

constexpr size_t kMostWalking = 8;
// How far the walk of the tree runs ahead of the copies, so that the totals are known early.
constexpr size_t kMostQueued = 16384;
// Each has a descriptor on this machine.
constexpr size_t kMostOpen = 300;

std::string PathBelow(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + '/' + name;
}

std::string Joined(std::string directory, const std::string& name) {
  if (!directory.empty() && !directory.ends_with('/')) directory += '/';
  return directory + name;
}

}  // namespace

Copier::Copier(Loop& loop, Tree& target, const Options& options, Observer& observer)
    : run_(loop, options, observer), target_(target) {}
Copier::~Copier() = default;

void Copier::AddEntry(std::shared_ptr<Directory> from, Entry entry, std::shared_ptr<Directory> to, std::string name) {
  roots_.insert(to->identity());
  Item item{.from = std::move(from), .entry = std::move(entry), .to = std::move(to), .name = std::move(name)};
  item.to_name = item.to->NameOf(item.name);
  if (item.entry.attributes.type == FileType::kDirectory && run_.options.recursive) {
    directories_.push_back(std::move(item));
    return;
  }
  if (item.entry.attributes.type == FileType::kRegular) {
    ++run_.totals.files_found;
    run_.totals.octets_found += item.entry.attributes.size;
  }
  queue_.push_back(std::move(item));
}

void Copier::AddContents(std::shared_ptr<Directory> from, std::shared_ptr<Directory> to) {
  roots_.insert(to->identity());
  sources_.insert(from->identity());
  const auto work = std::make_shared<Work>();
  work->to_name = to->name();
  work->from = std::move(from);
  work->to = std::move(to);
  work->may_have_entries = true;
  directories_.push_back({.contents = work});
}

void Copier::AddDirectory(std::shared_ptr<Directory> from, std::shared_ptr<Directory> to, std::string name) {
  sources_.insert(from->identity());
  const auto work = std::make_shared<Work>();
  work->to_name = to->NameOf(name);
  work->from = std::move(from);
  Item item{.to = std::move(to), .to_name = work->to_name, .name = std::move(name)};
  item.contents = work;
  directories_.push_back(std::move(item));
}

void Copier::AddStream(Stream stream, std::shared_ptr<Directory> to, std::string name) {
  Item item{.to = std::move(to), .name = std::move(name)};
  item.to_name = item.to->NameOf(item.name);
  item.stream = std::move(stream);
  ++run_.totals.files_found;
  queue_.push_back(std::move(item));
}

Task<Result<void>> Copier::Run() {
  // The first argument is copied first.
  std::ranges::reverse(directories_);
  OneShot<> done;
  done_ = &done;
  Pump();
  co_await done;
  if (run_.stopping) co_return std::unexpected(Error{"cancelled", std::nullopt, ECANCELED});
  if (run_.options.dry_run) co_return Result<void>();
  co_return co_await target_.Finish();
}

void Copier::Stop() {
  run_.stopping = true;
  target_.Flush();
  Pump();
}

Task<void> Copier::Discard() {
  // The list may change meanwhile.
  const std::vector<copying::Run::Temporary> temporaries(run_.temporaries.begin(), run_.temporaries.end());
  const auto remove = [&](uint64_t index, uint32_t) -> Task<Result<void>> {
    const copying::Run::Temporary& each = temporaries[index];
    const std::string name = each.name.Text();
    if (!run_.options.keep_partial || each.name.complete == 0) (void)co_await each.directory->Remove(name);
    co_return Result<void>();
  };
  (void)co_await client::MovePieces(temporaries.size(), 1, run_.options.jobs, remove);
}

// ---- turns ----

void Copier::Pump() {
  if (pumping_) {
    pump_again_ = true;
    return;
  }
  pumping_ = true;
  do {
    pump_again_ = false;
    PumpOnce();
  } while (pump_again_);
  pumping_ = false;
  if (done_ && active_ == 0 && queue_.empty() && directories_.empty()) std::exchange(done_, nullptr)->Set();
}

void Copier::PumpOnce() {
  if (is_ending()) DropAll();
  while (copying_ < run_.options.jobs && !queue_.empty()) {
    Item item = std::move(queue_.front());
    queue_.pop_front();
    ++active_;
    ++copying_;
    Spawn(CopyOne(std::move(item)));
  }
  // If nothing else is under way, only the next directory can end those that are open.
  while (!directories_.empty() && walking_ < kMostWalking && queue_.size() < kMostQueued &&
         (open_ < kMostOpen || active_ == 0)) {
    Item item = std::move(directories_.back());
    directories_.pop_back();
    ++active_;
    ++walking_;
    ++open_;
    Spawn(Walk(std::move(item)));
  }
  if (publishing_ > 0 && active_ == publishing_) target_.Flush();
}

// Ends what has not begun.
void Copier::DropAll() {
  for (Item& item : std::exchange(queue_, {})) {
    if (item.work) End(std::move(item.work));
  }
  for (Item& item : std::exchange(directories_, {})) {
    if (item.work) End(std::move(item.work));
  }
}

// ---- directories ----

Task<void> Copier::Walk(Item item) {
  Result<WorkPointer> entered = nullptr;
  if (item.contents) {
    entered = co_await EnterContents(item);
  } else {
    entered = co_await Enter(item);
  }
  if (entered) {
    co_await WalkContents(*std::move(entered));
  } else {
    Fail(item.source(), item.contents ? item.contents->to_name : item.to_name, entered.error());
    --open_;
    if (item.work) End(std::move(item.work));
  }
  --walking_;
  --active_;
  Pump();
}

Task<Result<Copier::WorkPointer>> Copier::EnterContents(Item& item) {
  const WorkPointer work = item.contents;
  PENSTOCK_CO_TRY(work->attributes, co_await work->from->GetAttributes());
  if (item.name.empty()) co_return work;
  item.entry.attributes = work->attributes;
  PENSTOCK_CO_CHECK(co_await EnterTarget(item, *work));
  // It may be in the source.
  if (work->to) roots_.insert(work->to->identity());
  co_return work;
}

Task<Result<Copier::WorkPointer>> Copier::Enter(const Item& item) {
  const auto work = std::make_shared<Work>();
  work->above = item.work;
  work->attributes = item.entry.attributes;
  work->to_name = item.to_name;
  work->path = item.work ? PathBelow(item.work->path, item.name) : "";
  PENSTOCK_CO_TRY(work->from, co_await item.from->OpenDirectory(item.entry));
  if (roots_.contains(work->from->identity())) {
    co_return std::unexpected(Error{"a directory cannot be copied into itself", std::nullopt, EINVAL});
  }
  PENSTOCK_CO_CHECK(co_await EnterTarget(item, *work));
  co_return work;
}

Task<Result<void>> Copier::EnterTarget(const Item& item, Work& work) {
  PENSTOCK_CO_TRY(const std::optional<Entry> existing, co_await FindExisting(item));
  const bool is_other = existing && existing->attributes.type != FileType::kDirectory;
  if (is_other && !run_.options.replace_others) {
    co_return std::unexpected(Error{client::Describe(Status::kNotDirectory), Status::kNotDirectory, ENOTDIR});
  }
  if (is_other) PENSTOCK_CO_CHECK(co_await Delete(*item.to, *existing, item.to_name));
  if (existing && !is_other) {
    work.may_have_entries = true;
    PENSTOCK_CO_TRY(work.to, co_await item.to->OpenDirectory(*existing));
    co_return Result<void>();
  }
  work.is_new = true;
  if (!run_.options.dry_run) {
    // Until its contents are complete, the user must be able to write into it.
    const uint32_t mode = run_.options.keep_modes ? 0700 : (item.entry.attributes.mode & 0777) | 0700;
    auto made = co_await item.to->MakeDirectory(item.name, mode);
    // A server that has restarted may have made it and lost the reply. Or another copy has made it meanwhile.
    if (!made && made.error().status == Status::kExists) {
      work.may_have_entries = true;
      PENSTOCK_CO_TRY(const Entry there, co_await item.to->Find(item.name));
      made = co_await item.to->OpenDirectory(there);
    }
    if (!made) co_return std::unexpected(std::move(made).error());
    work.to = *std::move(made);
  }
  Done(Action::kMadeDirectory, item.source(), item.to_name);
  co_return Result<void>();
}

Task<Result<void>> Copier::ListTarget(Work& work) {
  PENSTOCK_CO_TRY(std::vector<Entry> entries, co_await work.to->List());
  for (Entry& entry : entries) {
    if (!IsEntryName(entry.name)) continue;
    if (auto temporary = TemporaryName::Parse(entry.name)) {
      std::string target = temporary->target;
      work.leftovers.emplace(std::move(target), *std::move(temporary));
    }
    std::string name = entry.name;
    work.existing.emplace(std::move(name), std::move(entry));
  }
  co_return Result<void>();
}

Task<void> Copier::WalkContents(WorkPointer work) {
  auto entries = co_await work->from->List();
  Result<void> listed;
  if (entries && work->to && work->may_have_entries) listed = co_await ListTarget(*work);
  if (!entries || !listed) {
    Fail(work->from->name(), work->to_name, entries ? listed.error() : entries.error());
    End(std::move(work));
    co_return;
  }
  std::set<std::string> kept;
  for (Entry& entry : *entries) {
    if (is_ending()) break;
    if (!IsEntryName(entry.name)) {
      Fail(work->from->name(), work->to_name, Error{"a name in the directory is not allowed", std::nullopt, EINVAL});
      continue;
    }
    // The unfinished file of another copy.
    if (TemporaryName::Parse(entry.name)) continue;
    if (run_.options.delete_others) kept.insert(entry.name);
    const std::string source = work->from->NameOf(entry.name);
    const std::string target = Joined(work->to_name, entry.name);
    const Result<void> arranged = co_await Arrange(work, std::move(entry));
    if (!arranged) Fail(source, target, arranged.error());
  }
  if (run_.options.delete_others && !is_ending() && work->to) co_await DeleteOthers(*work, kept);
  End(std::move(work));
}

Task<Result<void>> Copier::Arrange(const WorkPointer& work, Entry entry) {
  if (entry.attributes.type == FileType::kOther) {
    PENSTOCK_CO_TRY(entry, co_await work->from->Find(entry.name));
  }
  const bool is_directory = entry.attributes.type == FileType::kDirectory;
  if (!run_.options.filter.Includes(PathBelow(work->path, entry.name), is_directory)) co_return Result<void>();
  if (entry.attributes.type == FileType::kRegular) {
    ++run_.totals.files_found;
    run_.totals.octets_found += entry.attributes.size;
  }
  ++work->pending;
  Item item{.work = work, .from = work->from, .to = work->to, .name = entry.name};
  item.to_name = Joined(work->to_name, item.name);
  item.entry = std::move(entry);
  if (is_directory) {
    directories_.push_back(std::move(item));
  } else {
    queue_.push_back(std::move(item));
  }
  Pump();
  co_return Result<void>();
}

Task<void> Copier::DeleteOthers(const Work& work, const std::set<std::string>& kept) {
  std::vector<const Entry*> others;
  for (const auto& [name, entry] : work.existing) {
    if (kept.contains(name)) continue;
    const auto temporary = TemporaryName::Parse(name);
    // The copy of that file resumes or removes it.
    if (temporary && kept.contains(temporary->target)) continue;
    const bool is_directory = entry.attributes.type == FileType::kDirectory;
    if (!run_.options.filter.Includes(PathBelow(work.path, name), is_directory)) continue;
    others.push_back(&entry);
  }
  const auto remove = [&](uint64_t index, uint32_t) -> Task<Result<void>> {
    const Entry& entry = *others[index];
    const std::string target = Joined(work.to_name, entry.name);
    const Result<void> deleted = co_await Delete(*work.to, entry, target);
    if (!deleted) Fail("", target, deleted.error());
    co_return Result<void>();
  };
  (void)co_await client::MovePieces(others.size(), 1, run_.options.jobs, remove);
}

Task<Result<void>> Copier::Delete(Directory& directory, const Entry& entry, const std::string& target) {
  if (run_.stopping) co_return std::unexpected(Error{"cancelled", std::nullopt, ECANCELED});
  const bool is_directory = entry.attributes.type == FileType::kDirectory;
  if (is_directory) {
    PENSTOCK_CO_TRY(const auto opened, co_await directory.OpenDirectory(entry));
    if (sources_.contains(opened->identity())) {
      co_return std::unexpected(Error{"the source of the copy is not deleted", std::nullopt, EINVAL});
    }
    PENSTOCK_CO_TRY(const std::vector<Entry> entries, co_await opened->List());
    const auto remove = [&](uint64_t index, uint32_t) -> Task<Result<void>> {
      const Entry& each = entries[index];
      if (!IsEntryName(each.name)) {
        co_return std::unexpected(Error{"a name in the directory is not allowed", std::nullopt, EINVAL});
      }
      co_return co_await Delete(*opened, each, Joined(target, each.name));
    };
    PENSTOCK_CO_CHECK(co_await client::MovePieces(entries.size(), 1, run_.options.jobs, remove));
  }
  if (!run_.options.dry_run) {
    Result<void> removed;
    if (is_directory) {
      removed = co_await directory.RemoveDirectory(entry.name);
    } else {
      removed = co_await directory.Remove(entry.name);
    }
    // It is gone, perhaps by this call: a server that has restarted may have lost the reply.
    if (!removed && removed.error().status != Status::kNotFound) co_return removed;
  }
  ++run_.totals.deleted;
  run_.observer.Done(Action::kDeleted, "", target, 0);
  co_return Result<void>();
}

// ---- the ends of directories ----

void Copier::End(WorkPointer work) {
  if (--work->pending > 0) return;
  ++active_;
  Spawn(EndDirectory(std::move(work)));
}

// The attributes come last: copies of entries change the times, and the mode may forbid them.
Task<void> Copier::EndDirectory(WorkPointer work) {
  if (work->to && !run_.stopping) {
    Result<void> set;
    if (keeps_extras()) {
      set = co_await MatchDirectory(*work);
    } else if (!run_.options.dry_run) {
      set = co_await SetDirectoryAttributes(*work, std::nullopt);
    }
    if (!set) Fail(work->from->name(), work->to_name, set.error());
  }
  --open_;
  --active_;
  if (work->above) End(work->above);
  work.reset();
  Pump();
}

Task<Result<void>> Copier::SetDirectoryAttributes(Work& work, std::optional<uint32_t> mode) {
  NewAttributes attributes = KeptAttributes(run_.options, work.attributes);
  if (run_.options.keep_acls && mode) KeepPermissions(attributes, *mode);
  const uint32_t missing = 0700 & ~work.attributes.mode;
  if (work.is_new && !attributes.mode && missing != 0) {
    PENSTOCK_CO_TRY(const Attributes made, co_await work.to->GetAttributes());
    attributes.mode = made.mode & ~missing;
  }
  if (!attributes.mode && !attributes.owner && !attributes.group && !attributes.modified) co_return Result<void>();
  const auto set = [&](const NewAttributes& some) { return work.to->SetAttributes(some); };
  co_return co_await SetKept(work.to_name, attributes, set);
}

// ---- reports ----

bool Copier::GoesOnWithoutOwners(const std::string& target, const Error& error, bool tried) {
  const bool refused = error.status == Status::kNotPermitted || error.status == Status::kBadOwner;
  if (!refused || !tried) return false;
  // Another file that was under way has reported it.
  if (!sets_owners()) return true;
  Error advice = error;
  advice.message += "; the copy goes on without owners and groups (see --no-owner)";
  Fail("", target, advice);
  run_.options.keep_owners = run_.options.keep_groups = false;
  return true;
}

void Copier::Fail(const std::string& from, const std::string& to, const Error& error) {
  if (run_.stopping) return;
  if (IsFull(error)) full_ = true;
  Complain(from, to, error);
}

void Copier::Complain(const std::string& from, const std::string& to, const Error& error) {
  if (run_.stopping) return;
  ++run_.totals.errors;
  run_.observer.Failed(from, to, error);
}

void Copier::Done(Action action, const std::string& from, const std::string& to, uint64_t octets) {
  switch (action) {
    case Action::kCopied:
      ++run_.totals.files;
      break;
    case Action::kSkipped:
      ++run_.totals.skipped;
      break;
    case Action::kSetAcl:
    case Action::kSetXattrs:
      ++run_.totals.mended;
      break;
    default:
      ++run_.totals.others;
      break;
  }
  run_.observer.Done(action, from, to, octets);
  run_.observer.Moved(run_.totals);
}

}  // namespace penstock::copying
