#include "copying/extras.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "copying/acl_forms.h"

namespace penstock::copying {
namespace {

using client::Error;
using client::Result;
using client::Status;
using Aces = std::vector<client::Ace>;

constexpr uint32_t kPermissions = 0777;

constexpr auto kAttributeNotSupported = Status(10032);  // NFS4ERR_ATTRNOTSUPP

bool IsUnsupported(const Error& error) {
  return error.status == Status::kNotSupported || error.status == kAttributeNotSupported || error.number == EOPNOTSUPP;
}

Error About(std::string_view what, const Error& error) {
  return {fmt::format("{}: {}", what, error.message), error.status, error.number};
}

// ---- access control lists ----

constexpr std::string_view kList = "access control list";

// One match of the lists of two objects.
class AclMatch {
 public:
  AclMatch(Extras& from, Extras& to, uint32_t source_mode, uint32_t special, Matching how)
      : from_(from), to_(to), source_mode_(source_mode), special_(special), how_(how) {}

  Task<ExtrasReport> Run() {
    const Result<void> done = co_await Match();
    if (!done) {
      report_.failures.push_back(About(kList, done.error()));
      // Until now, a new object gives no right to groups and others.
      if (how_.is_new) co_await FallBack();
    }
    co_return std::move(report_);
  }

 private:
  Task<Result<void>> Match() {
    auto source = co_await from_.GetAcl();
    if (!source && !IsUnsupported(source.error())) {
      source_mode_ &= 0700;  // the other bits may be the mask of a list
      co_return std::unexpected(std::move(source).error());
    }
    report_.hidden = !source && !from_.tells_all();
    const Acl given = source ? *std::move(source) : Acl(fs::Acls{fs::AclOfMode(source_mode_), {}});
    auto target = co_await to_.GetAcl();
    if (!target && !IsUnsupported(target.error())) {
      const auto form = co_await ToPosix(given);
      if (form) within_ = ModeWithin(form->acls.access);
      co_return std::unexpected(std::move(target).error());
    }
    if (!target) {
      PENSTOCK_CO_TRY(const PosixForm form, co_await ToPosix(given));
      co_return co_await MatchMode(form);
    }
    if (std::holds_alternative<fs::Acls>(*target)) co_return co_await MatchPosix(given, std::get<fs::Acls>(*target));
    co_return co_await MatchAces(given, std::get<Aces>(*target));
  }

  Task<Result<PosixForm>> ToPosix(const Acl& acl) {
    if (const auto* const posix = std::get_if<fs::Acls>(&acl)) co_return PosixForm{*posix};
    auto form = co_await PosixFormOf(std::get<Aces>(acl), how_.is_directory, to_);
    if (!form) source_mode_ &= 0700;
    co_return form;
  }

  // The target has a mode only.
  Task<Result<void>> MatchMode(const PosixForm& form) {
    const uint32_t within = ModeWithin(form.acls.access);
    within_ = within;
    if (within != (to_.mode() & kPermissions)) {
      report_.changed = true;
      if (!how_.dry_run) PENSTOCK_CO_CHECK(co_await to_.SetMode(special_ | within));
    }
    if (form.is_exact && fs::IsMinimal(form.acls.access) && form.acls.defaults.empty()) co_return Result<void>();
    report_.failures.push_back(
        {fmt::format(
             "the target has no access control lists; its mode {:04o} allows nobody more than that of the source",
             special_ | within),
         Status::kNotSupported, EOPNOTSUPP});
    co_return Result<void>();
  }

  Task<Result<void>> MatchPosix(const Acl& given, const fs::Acls& target) {
    PENSTOCK_CO_TRY(const PosixForm form, co_await ToPosix(given));
    within_ = ModeWithin(form.acls.access);
    if (!SayTheSame(form.acls, target, !std::holds_alternative<fs::Acls>(given))) {
      report_.changed = true;
      if (how_.dry_run) co_return Result<void>();
      const Acl wanted = form.acls;
      PENSTOCK_CO_CHECK(co_await Set(wanted, &form));
    }
    if (!form.is_exact) {
      report_.failures.push_back(
          {"the target has only the lists of POSIX, which cannot express the access control list; it allows nobody "
           "more "
           "than that of the source",
           Status::kNotSupported, EOPNOTSUPP});
    }
    co_return Result<void>();
  }

  Task<Result<void>> MatchAces(const Acl& given, const Aces& target) {
    const auto* const posix = std::get_if<fs::Acls>(&given);
    const Aces wanted = posix ? AcesOf(*posix, how_.is_directory) : std::get<Aces>(given);
    if (posix) within_ = ModeWithin(posix->access);
    if (wanted == target) co_return Result<void>();
    const auto target_form = co_await PosixFormOf(target, how_.is_directory, from_);
    const auto wanted_form = co_await PosixFormOf(wanted, how_.is_directory, from_);
    if (wanted_form) within_ = ModeWithin(wanted_form->acls.access);
    if (!wanted_form) source_mode_ &= 0700;
    const bool exact = wanted_form && wanted_form->is_exact;
    // Servers write one list in several ways.
    const bool same =
        exact && target_form && target_form->is_exact && SayTheSame(wanted_form->acls, target_form->acls, true);
    if (same) co_return Result<void>();
    report_.changed = true;
    if (how_.dry_run) co_return Result<void>();
    const Acl list = wanted;
    const PosixForm* const form = wanted_form ? &*wanted_form : nullptr;
    PENSTOCK_CO_CHECK(co_await Set(list, form));
    if (exact) co_return Result<void>();
    // A server may keep less than it takes (RFC 8881 §6.4.1).
    PENSTOCK_CO_TRY(const Acl now, co_await to_.GetAcl());
    if (now == list) co_return Result<void>();
    report_.failures.push_back(
        {"the server keeps another access control list than that of the source", Status::kNotSupported, EOPNOTSUPP});
    co_return Result<void>();
  }

  // Not all file systems of a server that has lists can keep them. `form` is the list, if it is known in this form.
  Task<Result<void>> Set(const Acl& acl, const PosixForm* form) {
    Result<void> set = co_await to_.SetAcl(acl);
    if (set || !form || !IsUnsupported(set.error())) co_return set;
    co_return co_await MatchMode(*form);
  }

  Task<void> FallBack() {
    const uint32_t mode = special_ | within_.value_or(source_mode_ & kPermissions);
    const Result<void> set = co_await to_.SetMode(mode);
    if (!set) report_.failures.push_back(About("mode", set.error()));
  }

  Extras& from_;
  Extras& to_;
  uint32_t source_mode_;
  const uint32_t special_;
  const Matching how_;
  ExtrasReport report_;
  std::optional<uint32_t> within_;  // what the list allows
};

// ---- extended attributes ----

class XattrMatch {
 public:
  XattrMatch(Extras& from, Extras& to, Matching how) : from_(from), to_(to), how_(how) {}

  Task<ExtrasReport> Run() {
    const Result<void> done = co_await Match();
    if (!done) report_.failures.push_back(About("extended attributes", done.error()));
    if (opened_) {
      const Result<void> set = co_await to_.SetMode(to_.mode());
      if (!set) report_.failures.push_back(About("mode", set.error()));
    }
    co_return std::move(report_);
  }

 private:
  Task<Result<void>> Match() {
    auto names = co_await from_.ListXattrs();
    if (!names && IsUnsupported(names.error())) {
      report_.hidden = !from_.tells_all();
      co_return Result<void>();
    }
    if (!names) co_return std::unexpected(std::move(names).error());
    std::set<std::string> others;
    if (!how_.is_new) {
      auto listed = co_await to_.ListXattrs();
      if (!listed && !IsUnsupported(listed.error())) co_return std::unexpected(std::move(listed).error());
      if (listed) others.insert(listed->begin(), listed->end());
    }
    std::ranges::sort(*names);
    for (const std::string& name : *names) {
      const bool exists = others.erase(name) > 0;
      const Result<void> matched = co_await MatchOne(name, exists);
      if (matched) continue;
      if (IsUnsupported(matched.error())) co_return matched;
      report_.failures.push_back(About("extended attribute user." + name, matched.error()));
    }
    for (const std::string& name : others) {
      report_.changed = true;
      if (how_.dry_run) break;
      const auto remove = [&] { return to_.RemoveXattr(name); };
      const Result<void> removed = co_await Change(remove);
      // Somebody has removed it.
      if (removed || removed.error().number == ENODATA) continue;
      report_.failures.push_back(About("extended attribute user." + name, removed.error()));
    }
    co_return Result<void>();
  }

  Task<Result<void>> MatchOne(const std::string& name, bool exists) {
    if (name.empty() || name.contains('\0')) {
      co_return std::unexpected(Error{"a name that is not allowed", std::nullopt, EINVAL});
    }
    const auto value = co_await from_.GetXattr(name);
    if (!value) {
      // Somebody has removed it.
      if (value.error().number == ENODATA) co_return Result<void>();
      co_return std::unexpected(value.error());
    }
    if (exists) {
      const auto old = co_await to_.GetXattr(name);
      if (old && *old == *value) co_return Result<void>();
    }
    report_.changed = true;
    if (how_.dry_run) co_return Result<void>();
    const auto set = [&] { return to_.SetXattr(name, *value); };
    co_return co_await Change(set);
  }

  // Only who may write to an object may change its attributes, so its owner gets this right meanwhile.
  template <class Call>
  Task<Result<void>> Change(const Call& call) {
    constexpr uint32_t kOwnerWrites = 0200;
    Result<void> changed = co_await call();
    const bool refused = !changed && (changed.error().status == Status::kAccess || changed.error().number == EACCES);
    if (!refused || opened_ || (to_.mode() & kOwnerWrites) != 0) co_return changed;
    const Result<void> set = co_await to_.SetMode(to_.mode() | kOwnerWrites);
    if (!set) co_return changed;
    opened_ = true;
    co_return co_await call();
  }

  Extras& from_;
  Extras& to_;
  const Matching how_;
  ExtrasReport report_;
  bool opened_ = false;  // the owner may write to the target for now
};

}  // namespace

Task<ExtrasReport> MatchAcl(Extras& from, Extras& to, uint32_t source_mode, uint32_t special, Matching how) {
  AclMatch match(from, to, source_mode, special, how);
  co_return co_await match.Run();
}

Task<ExtrasReport> MatchXattrs(Extras& from, Extras& to, Matching how) {
  XattrMatch match(from, to, how);
  co_return co_await match.Run();
}

}  // namespace penstock::copying
