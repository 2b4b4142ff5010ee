#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/result.h"
#include "copying/copier.h"

namespace penstock::copying {
namespace {

// After errors that may come of a reply that was lost in a restart of the server.
constexpr int kMostRepeats = 4;

std::unexpected<Error> IsDirectory() {
  return std::unexpected(Error{client::Describe(Status::kIsDirectory), Status::kIsDirectory, EISDIR});
}

// Whether two times are equal. A file system may keep whole seconds only.
bool AreSame(const client::Time& source, const client::Time& target) {
  if (source.seconds != target.seconds) return false;
  return source.nanoseconds == target.nanoseconds || target.nanoseconds == 0;
}

}  // namespace

Task<void> Copier::CopyOne(Item item) {
  bool waits = false;
  const Result<void> copied = co_await CopyEntry(item, waits);
  if (!copied) Fail(item.source(), item.to_name, copied.error());
  --copying_;
  --active_;
  if (!waits && item.work) End(std::move(item.work));
  Pump();
}

Task<Result<void>> Copier::CopyEntry(Item& item, bool& waits) {
  if (is_ending()) co_return Result<void>();
  if (item.stream) co_return co_await CopyStream(item);
  if (item.entry.attributes.type == FileType::kDirectory) {
    co_return std::unexpected(Error{"is a directory; -r copies it with its contents", Status::kIsDirectory, EISDIR});
  }
  std::optional<Entry> existing;
  PENSTOCK_CO_TRY(existing, co_await FindExisting(item));
  if (item.from->identity() == (item.to ? item.to->identity() : "") && item.entry.name == item.name) {
    co_return std::unexpected(Error{"source and target are the same file", std::nullopt, EINVAL});
  }
  const Attributes& source = item.entry.attributes;
  const bool has_links = run_.options.hard_links && source.type == FileType::kRegular && source.links > 1;
  if (!has_links) co_return co_await CopyFound(item, std::move(existing));
  const auto [at, is_first] = links_.try_emplace(KeyOf(item));
  if (at->second.is_copied) co_return co_await MakeLink(item, at->second, std::move(existing));
  if (!is_first) {
    at->second.waiting.push_back(std::move(item));
    waits = true;
    co_return Result<void>();
  }
  Result<void> copied = co_await CopyFound(item, std::move(existing));
  HandleLinks(item, copied.has_value());
  co_return copied;
}

// Copies an entry that is no further name of a file that was copied.
Task<Result<void>> Copier::CopyFound(const Item& item, std::optional<Entry> existing) {
  if (existing && run_.options.skip_same) {
    PENSTOCK_CO_TRY(const bool same, co_await LeaveSame(item, *existing));
    if (same) co_return co_await Skip(item);
  }
  PENSTOCK_CO_CHECK(co_await MakeRoom(item, existing));
  switch (item.entry.attributes.type) {
    case FileType::kSymlink:
      co_return co_await CopySymlink(item, existing);
    case FileType::kRegular:
      co_return co_await CopyRegular(item, existing && existing->attributes.type == FileType::kRegular);
    default:
      if (run_.options.special_files) co_return co_await CopySpecial(item, existing);
      co_return std::unexpected(Error{"not a regular file, directory or symbolic link", std::nullopt, EINVAL});
  }
}

Task<Result<void>> Copier::Skip(const Item& item) {
  PENSTOCK_CO_CHECK(co_await RemoveLeftovers(item));
  Done(Action::kSkipped, item.source(), item.to_name, item.entry.attributes.size);
  co_return Result<void>();
}

Task<Result<std::optional<Entry>>> Copier::FindExisting(const Item& item) {
  std::optional<Entry> existing;
  if (!item.to) co_return existing;
  if (item.work) {
    const auto found = item.work->existing.find(item.name);
    if (found != item.work->existing.end()) existing = found->second;
    if (!existing || existing->attributes.type != FileType::kOther) co_return existing;
  }
  auto found = co_await item.to->Find(item.name);
  if (found) {
    existing = *std::move(found);
  } else if (found.error().status != Status::kNotFound) {
    co_return std::unexpected(std::move(found).error());
  }
  co_return existing;
}

// Removes a target of another type that the new object cannot replace.
Task<Result<void>> Copier::MakeRoom(const Item& item, std::optional<Entry>& existing) {
  if (!existing || existing->attributes.type != FileType::kDirectory) co_return Result<void>();
  if (!run_.options.replace_others) co_return IsDirectory();
  PENSTOCK_CO_CHECK(co_await Delete(*item.to, *existing, item.to_name));
  existing.reset();
  co_return Result<void>();
}

// Returns true if the target is as the source already. Mends its attributes.
Task<Result<bool>> Copier::LeaveSame(const Item& item, const Entry& existing) {
  const Attributes& source = item.entry.attributes;
  const Attributes& target = existing.attributes;
  if (source.type != target.type) co_return false;
  const bool times_agree = AreSame(source.modified, target.modified);
  if (source.type == FileType::kSymlink) {
    PENSTOCK_CO_TRY(const std::string text, co_await item.from->ReadLink(item.entry));
    PENSTOCK_CO_TRY(const std::string other, co_await item.to->ReadLink(existing));
    if (text != other) co_return false;
  }
  if (source.type == FileType::kRegular) {
    if (source.size != target.size) co_return false;
    if (run_.options.compare_contents) {
      PENSTOCK_CO_TRY(const bool same, co_await HaveSameContents(run_, *item.from, item.entry, *item.to, existing));
      if (!same) co_return false;
    } else if (!times_agree) {
      co_return false;
    }
  } else if (source.type != FileType::kSymlink &&
             (source.device_major != target.device_major || source.device_minor != target.device_minor)) {
    co_return false;
  }
  if (!keeps_extras() || source.type == FileType::kSymlink) {
    if (!run_.options.dry_run) PENSTOCK_CO_CHECK(co_await MendAttributes(item, existing));
    co_return true;
  }
  PENSTOCK_CO_TRY(const auto from, co_await item.from->OpenExtras(item.entry));
  PENSTOCK_CO_TRY(auto to, co_await item.to->OpenExtras(existing));
  const Matching how{.dry_run = run_.options.dry_run};
  if (source.type == FileType::kRegular) {
    const ExtrasOf objects{*from, *to, item.source(), item.to_name, source};
    co_await MatchXattrsOf(objects, how);
  }
  if (!run_.options.dry_run) {
    PENSTOCK_CO_TRY(const Entry closed, co_await CloseForNewOwners(item, existing));
    PENSTOCK_CO_CHECK(co_await MendAttributes(item, closed));
    if (closed.attributes.mode != target.mode) {
      PENSTOCK_CO_TRY(to, co_await item.to->OpenExtras(closed));
    }
  }
  const ExtrasOf objects{*from, *to, item.source(), item.to_name, source};
  co_await MatchAclOf(objects, how);
  co_return true;
}

// Takes all rights from groups and others if the target is to get an owner, a group or a set-user-ID bit before its
// list: the rights that it has are for others. Returns the target as it is then.
Task<Result<Entry>> Copier::CloseForNewOwners(const Item& item, Entry existing) {
  uint32_t& mode = existing.attributes.mode;
  const NewAttributes kept = KeptAttributes(run_.options, item.entry.attributes);
  const bool changes_owners = (kept.owner && kept.owner != existing.attributes.owner) ||
                              (kept.group && kept.group != existing.attributes.group);
  const bool gains_bits = (kept.mode.value_or(0) & 07000 & ~mode) != 0;
  if (!run_.options.keep_acls || (!changes_owners && !gains_bits) || (mode & 0700) == mode) co_return existing;
  mode &= 0700;
  NewAttributes closed;
  closed.mode = mode;
  PENSTOCK_CO_CHECK(co_await SetKeptOf(item, item.name, closed));
  co_return existing;
}

Task<Result<void>> Copier::MendAttributes(const Item& item, const Entry& existing) {
  const Attributes& source = item.entry.attributes;
  const Attributes& target = existing.attributes;
  NewAttributes kept = KeptAttributes(run_.options, source);
  if (run_.options.keep_acls) KeepPermissions(kept, target.mode);
  if (source.type == FileType::kSymlink || kept.mode == target.mode) kept.mode.reset();
  if (kept.owner == target.owner) kept.owner.reset();
  if (kept.group == target.group) kept.group.reset();
  if (AreSame(source.modified, target.modified)) kept.accessed.reset(), kept.modified.reset();
  const bool some = kept.mode || kept.owner || kept.group || kept.modified;
  if (!some) co_return Result<void>();
  co_return co_await SetKeptOf(item, item.name, kept);
}

// Sets attributes of the copy of `item`, which has the name `name`.
Task<Result<void>> Copier::SetKeptOf(const Item& item, const std::string& name, const NewAttributes& kept) {
  const auto set_some = [&](const NewAttributes& some) { return item.to->SetAttributesOf(name, some); };
  Result<void> set = co_await SetKept(item.to_name, kept, set_some);
  // Not every server sets the attributes of symbolic links.
  const bool is_link = item.entry.attributes.type == FileType::kSymlink;
  if (!set && is_link && (set.error().status == Status::kNotSupported || set.error().status == Status::kInvalid)) {
    co_return Result<void>();
  }
  co_return set;
}

// ---- regular files ----

Task<Result<void>> Copier::CopyRegular(const Item& item, bool replaces) {
  uint64_t size = item.entry.attributes.size;
  run_.observer.Started(item.source(), item.to_name, size);
  if (!run_.options.dry_run) {
    const bool owners = sets_owners();
    Result<void> copied = co_await TryToCopy(item, replaces, size);
    if (!copied && GoesOnWithoutOwners(item.to_name, copied.error(), owners)) {
      copied = co_await TryToCopy(item, replaces, size);
    }
    // Another copy of the same file may have taken the temporary file. Or a server that has restarted has lost the
    // reply to a rename.
    for (int again = 0; again < kMostRepeats && !copied && copied.error().status == Status::kNotFound; ++again) {
      copied = co_await TryToCopy(item, replaces, size);
    }
    if (!copied) co_return copied;
  }
  Done(Action::kCopied, item.source(), item.to_name, size);
  co_return Result<void>();
}

Task<Result<void>> Copier::TryToCopy(const Item& item, bool replaces, uint64_t& size) {
  TemporaryName name = TemporaryName::For(item.name, item.source(), item.entry.attributes);
  FileToCopy file{.from = item.from, .entry = item.entry, .to = item.to, .name = item.name, .replaces = replaces};
  PENSTOCK_CO_TRY(file.leftovers, co_await FindLeftovers(item, name));
  KnownTemporary temporary(run_, item.to, std::move(name));
  Result<void> copied = co_await CopyFile(run_, file, temporary, size);
  if (copied && keeps_extras()) {
    const std::string text = temporary.name().Text();
    copied = co_await MatchNew(item, text);
  }
  if (copied && run_.stopping) copied = std::unexpected(Error{"cancelled", std::nullopt, ECANCELED});
  if (copied) {
    // The next file can begin while this one waits for others.
    --copying_;
    ++publishing_;
    Pump();
    const std::string text = temporary.name().Text();
    copied = co_await item.to->Publish(text, item.name, size);
    if (!copied && copied.error().status == Status::kNotFound) {
      const bool published = co_await IsPublished(item, temporary);
      if (published) copied = Result<void>();
    }
    --publishing_;
    ++copying_;
  }
  if (!copied) {
    co_await temporary.Discard();
    co_return copied;
  }
  for (const TemporaryName& leftover : file.leftovers) {
    const std::string text = leftover.Text();
    (void)co_await item.to->Remove(text);
  }
  co_return copied;
}

// After a rename that has not found the temporary file: whether the target is that file. A server that has restarted
// may have renamed it and lost the reply.
Task<bool> Copier::IsPublished(const Item& item, KnownTemporary& temporary) {
  const std::optional<Attributes>& file = temporary.file();
  if (!file) co_return false;
  const auto target = co_await item.to->Find(item.name);
  co_return target&& client::AreOneFile(target->attributes, *file);
}

// For a file that is the same: an earlier copy may have been killed when it had finished the file a second time.
Task<Result<void>> Copier::RemoveLeftovers(const Item& item) {
  if (!item.work || item.work->leftovers.empty() || run_.options.dry_run) co_return Result<void>();
  const TemporaryName name = TemporaryName::For(item.name, item.source(), item.entry.attributes);
  PENSTOCK_CO_TRY(const std::vector<TemporaryName> leftovers, co_await FindLeftovers(item, name));
  for (const TemporaryName& leftover : leftovers) {
    const std::string text = leftover.Text();
    (void)co_await item.to->Remove(text);
  }
  co_return Result<void>();
}

Task<Result<std::vector<TemporaryName>>> Copier::FindLeftovers(const Item& item, const TemporaryName& name) {
  std::vector<TemporaryName> leftovers;
  const auto take = [&](const TemporaryName& found) {
    if (found.IsOfSameCopy(name)) leftovers.push_back(found);
  };
  if (item.work) {
    const auto [begin, end] = item.work->leftovers.equal_range(name.target);
    for (auto at = begin; at != end; ++at) take(at->second);
  } else if (run_.options.keep_partial || item.entry.attributes.size > run_.options.checkpoint) {
    // The directory of a single file may be large, so that it is read only for a file that can be resumed.
    PENSTOCK_CO_TRY(const std::vector<Entry> entries, co_await item.to->List());
    for (const Entry& entry : entries) {
      if (const auto found = TemporaryName::Parse(entry.name)) take(*found);
    }
  }
  std::ranges::sort(leftovers, std::ranges::greater(), &TemporaryName::complete);
  co_return leftovers;
}

Task<Result<void>> Copier::CopyStream(const Item& item) {
  if (!IsEntryName(item.name)) co_return IsDirectory();
  run_.observer.Started(item.source(), item.to_name, 0);
  PENSTOCK_CO_TRY(const std::optional<Entry> existing, co_await FindExisting(item));
  if (existing && existing->attributes.type == FileType::kDirectory) co_return IsDirectory();
  uint64_t size = 0;
  if (!run_.options.dry_run) {
    KnownTemporary temporary(run_, item.to, TemporaryName::For(item.name, item.source(), {}));
    NewFile made{.mode = item.stream->mode};
    if (existing && existing->attributes.type == FileType::kRegular) made.like = item.name;
    const std::string text = temporary.name().Text();
    Result<void> copied = co_await CopyStreamTo(run_, *item.stream, *item.to, text, made, size);
    if (copied) copied = co_await item.to->Publish(text, item.name, size);
    if (!copied) {
      co_await temporary.Discard();
      co_return copied;
    }
  }
  Done(Action::kCopied, item.source(), item.to_name, size);
  co_return Result<void>();
}

// ---- others ----

template <class Make>
Task<Result<void>> Copier::Replace(const Item& item, bool exists, Make make) {
  if (!exists) {
    Result<void> made = co_await make(item.name);
    // A server that has restarted may have made it and lost the reply.
    if (made || made.error().status != Status::kExists) co_return made;
  }
  for (int again = 0;; ++again) {
    const TemporaryName name = TemporaryName::For(item.name, item.source(), item.entry.attributes);
    KnownTemporary temporary(run_, item.to, name);
    const std::string text = name.Text();
    Result<void> made = co_await make(text);
    if (made) made = co_await item.to->Rename(text, item.name);
    // The rename of a name to another name of the same file does nothing.
    (void)co_await item.to->Remove(text);
    const bool repeats = !made && (made.error().status == Status::kExists || made.error().status == Status::kNotFound);
    if (!repeats || again == kMostRepeats) co_return made;
  }
}

Task<Result<void>> Copier::CopySymlink(const Item& item, const std::optional<Entry>& existing) {
  PENSTOCK_CO_TRY(const std::string text, co_await item.from->ReadLink(item.entry));
  if (!run_.options.dry_run) {
    const auto make = [&](const std::string& name) -> Task<Result<void>> {
      PENSTOCK_CO_CHECK(co_await item.to->MakeSymlink(name, text));
      NewAttributes kept = KeptAttributes(run_.options, item.entry.attributes);
      kept.mode.reset();
      if (!kept.owner && !kept.group && !kept.modified) co_return Result<void>();
      co_return co_await SetKeptOf(item, name, kept);
    };
    PENSTOCK_CO_CHECK(co_await Replace(item, existing.has_value(), make));
  }
  Done(Action::kMadeLink, item.source(), item.to_name);
  co_return Result<void>();
}

Task<Result<void>> Copier::CopySpecial(const Item& item, const std::optional<Entry>& existing) {
  if (!run_.options.dry_run) {
    const auto make = [&](const std::string& name) -> Task<Result<void>> {
      Attributes first = item.entry.attributes;
      if (run_.options.keep_acls) first.mode &= 0700;
      PENSTOCK_CO_CHECK(co_await item.to->MakeNode(name, first));
      const NewAttributes kept = KeptAttributes(run_.options, item.entry.attributes);
      const bool some = kept.mode || kept.owner || kept.group || kept.modified;
      if (some) PENSTOCK_CO_CHECK(co_await SetKeptOf(item, name, kept));
      if (run_.options.keep_acls) PENSTOCK_CO_CHECK(co_await MatchNew(item, name));
      co_return Result<void>();
    };
    PENSTOCK_CO_CHECK(co_await Replace(item, existing.has_value(), make));
  }
  Done(Action::kMadeSpecial, item.source(), item.to_name);
  co_return Result<void>();
}

// ---- hard links ----

Copier::LinkKey Copier::KeyOf(const Item& item) const {
  return {item.from->tree(), item.entry.attributes.file_system, item.entry.attributes.file_id};
}

Task<Result<void>> Copier::MakeLink(const Item& item, const Links& links, std::optional<Entry> existing) {
  const auto to = links.to;
  const std::string target = links.name;
  if (existing && existing->attributes.type == FileType::kRegular && to) {
    // A dry run may not find it.
    const auto first = co_await to->Find(target);
    const bool is_linked = first && client::AreOneFile(first->attributes, existing->attributes);
    if (is_linked) co_return co_await Skip(item);
  }
  PENSTOCK_CO_CHECK(co_await MakeRoom(item, existing));
  if (!run_.options.dry_run) {
    const auto make = [&](const std::string& name) { return item.to->Link(*to, target, name); };
    PENSTOCK_CO_CHECK(co_await Replace(item, existing.has_value(), make));
    PENSTOCK_CO_CHECK(co_await RemoveLeftovers(item));
  }
  Done(Action::kLinked, item.source(), item.to_name);
  co_return Result<void>();
}

void Copier::HandleLinks(const Item& item, bool copied) {
  const auto at = links_.try_emplace(KeyOf(item)).first;
  std::vector<Item> waiting = std::exchange(at->second.waiting, {});
  if (copied) {
    at->second.is_copied = true;
    at->second.to = item.to;
    at->second.name = item.name;
  } else {
    // Another name becomes the first.
    links_.erase(at);
  }
  for (Item& each : waiting) queue_.push_back(std::move(each));
}

}  // namespace penstock::copying
