#include "client/nfs4/complete_directories.h"

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/mix.h"

namespace penstock::client::v4 {
namespace {

bool IsLetterOrDigit(char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }

// Whether a name that is in no listing leads nowhere. A server may hide names that begin with a dot (snapshots), may
// ignore dots and spaces at the end, and may have short names with '~'.
bool IsPlain(std::string_view name) {
  const auto is_usual = [](char c) { return IsLetterOrDigit(c) || c == '_' || c == '-' || c == '.' || c == '+'; };
  return !name.empty() && std::ranges::all_of(name, is_usual) && name.front() != '.' && name.back() != '.';
}

// A server may take some other letters for those of ASCII.
bool IsAscii(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Names that differ in the case of letters only have the same digest: a server may take them for one name.
uint64_t DigestOf(std::string_view name) {
  std::string folded(name);
  for (char& c : folded) {
    if (IsLetterOrDigit(c)) c = static_cast<char>(c | 0x20);
  }
  return Mix(folded.size(), AsBytes(folded));
}

}  // namespace

CompleteDirectories::Directory* CompleteDirectories::Find(const Handle& directory) {
  const auto at = std::ranges::find(directories_, directory, &Directory::handle);
  if (at == directories_.end()) return nullptr;
  directories_.splice(directories_.begin(), directories_, at);
  return &directories_.front();
}

CompleteDirectories::Directory& CompleteDirectories::FindOrAdd(const Handle& directory) {
  if (Directory* const known = Find(directory)) return *known;
  if (directories_.size() == kMost) directories_.pop_back();
  directories_.emplace_front().handle = directory;
  return directories_.front();
}

void CompleteDirectories::ListLater(Directory& directory) {
  directory.made_before_listing = std::min(4 * directory.made_before_listing, kMostFilesBefore);
  directory.made = 0;
}

void CompleteDirectories::LoseNames(Directory& directory) {
  if (!directory.names) return;
  directory.names.reset();
  const bool paid = directory.saved >= kSavedEnough;
  if (!paid) return ListLater(directory);
  directory.made_before_listing = kFilesBefore;
  directory.made = 0;
}

CompleteDirectories::Advice CompleteDirectories::AdviceOn(const Handle& directory, std::string_view name,
                                                          TimePoint now) {
  if (directories_.empty() || !IsPlain(name)) return Advice::kAsk;
  Directory* const known = Find(directory);
  if (!known || known->is_large || known->is_listed) return Advice::kAsk;
  if (!known->names) return known->made >= known->made_before_listing ? Advice::kList : Advice::kAsk;
  if (known->names->contains(DigestOf(name)) || now - known->asked > trusted_) return Advice::kAsk;
  ++known->saved;
  return Advice::kAbsent;
}

CompleteDirectories::Listing::Listing(CompleteDirectories& directories, const Handle& directory, TimePoint asked)
    : directories_(directories), handle_(directory), asked_(asked) {
  Directory& known = directories_.FindOrAdd(handle_);
  known.is_listed = true;
  events_ = known.events;
}

CompleteDirectories::Listing::~Listing() {
  Directory* const known = directories_.Find(handle_);
  if (!known || !known->is_listed) return;
  known->is_listed = false;
  if (!known->names) ListLater(*known);
}

void CompleteDirectories::Listing::HandleListed(uint64_t change, const std::vector<std::string_view>& names,
                                                bool ends) {
  Directory* const known = directories_.Find(handle_);
  if (!known || known->events != events_) return;
  known->is_large = !ends || names.size() > kMostNames || !std::ranges::all_of(names, IsAscii);
  if (known->is_large) return;
  known->names.emplace();
  for (const std::string_view name : names) known->names->insert(DigestOf(name));
  known->change = change;
  known->asked = asked_;
  known->saved = 0;
}

void CompleteDirectories::HandleMade(const Handle& directory, std::string_view name, const nfs4::change_info4& change,
                                     TimePoint asked) {
  if (trusted_ <= Duration::zero()) return;
  Directory& known = FindOrAdd(directory);
  known.events = ++events_;
  const bool only_mine = known.change == change.before && (change.atomic || change.before == change.after);
  // The server cannot tell two changes from one another, or the file existed.
  const bool shows_nothing = change.before == change.after;
  if (!only_mine) LoseNames(known);
  known.change = change.after;
  if (!known.names) {
    ++known.made;
    return;
  }
  if (!shows_nothing) known.asked = std::max(known.asked, asked);
  known.names->insert(DigestOf(name));
  known.is_large = known.names->size() > kMostNames || !IsAscii(name) || (shows_nothing && change.atomic);
  if (known.is_large) known.names.reset();
}

void CompleteDirectories::HandleChange(const Handle& directory) {
  Directory* const known = Find(directory);
  if (!known) return;
  known->events = ++events_;
  known->change.reset();
  LoseNames(*known);
}

}  // namespace penstock::client::v4
