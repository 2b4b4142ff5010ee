// The parts of the copier that concern access control lists and extended attributes.
#include <cerrno>
#include <utility>

#include "base/result.h"
#include "copying/copier.h"

namespace penstock::copying {

// `target` is the name that the copy has now.
Task<Result<void>> Copier::MatchNew(const Item& item, const std::string& target) {
  const Attributes& source = item.entry.attributes;
  PENSTOCK_CO_TRY(const auto from, co_await item.from->OpenExtras(item.entry));
  const Entry copy{.name = target, .attributes = {}};
  PENSTOCK_CO_TRY(const auto to, co_await item.to->OpenExtras(copy));
  const ExtrasOf objects{*from, *to, item.source(), item.to_name, source};
  const Matching how{.is_new = true};
  if (source.type == FileType::kRegular) co_await MatchXattrsOf(objects, how);
  co_await MatchAclOf(objects, how);
  co_return Result<void>();
}

Task<Result<void>> Copier::MatchDirectory(Work& work) {
  const bool is_new = work.is_new && !work.may_have_entries;
  const Matching how{.is_directory = true, .is_new = is_new, .dry_run = run_.options.dry_run};
  PENSTOCK_CO_TRY(const auto from, co_await work.from->OpenOwnExtras());
  PENSTOCK_CO_TRY(const auto to, co_await work.to->OpenOwnExtras());
  const ExtrasOf objects{*from, *to, work.from->name(), work.to_name, work.attributes};
  // Who may write into a directory may set them, and the mode can forbid that.
  co_await MatchXattrsOf(objects, how);
  Result<void> set;
  if (!how.dry_run) set = co_await SetDirectoryAttributes(work, to->mode());
  co_await MatchAclOf(objects, how);
  co_return set;
}

Task<void> Copier::MatchAclOf(ExtrasOf objects, Matching how) {
  if (!run_.options.keep_acls) co_return;
  const uint32_t special = KeptAttributes(run_.options, objects.source).mode.value_or(0) & 07000;
  const ExtrasReport report = co_await MatchAcl(objects.from, objects.to, objects.source.mode & 0777, special, how);
  Tell(objects, report, how, Action::kSetAcl);
  if (!report.hidden || std::exchange(told_hidden_acls_, true)) co_return;
  Fail(
      objects.source_name, objects.target_name,
      Error{
          "the source does not tell access control lists (version 3 needs a server with NFSACL); its copies have modes",
          Status::kNotSupported, EOPNOTSUPP});
}

Task<void> Copier::MatchXattrsOf(ExtrasOf objects, Matching how) {
  if (!run_.options.keep_xattrs) co_return;
  const ExtrasReport report = co_await MatchXattrs(objects.from, objects.to, how);
  Tell(objects, report, how, Action::kSetXattrs);
  if (!report.hidden || std::exchange(told_hidden_xattrs_, true)) co_return;
  Fail(objects.source_name, objects.target_name,
       Error{"the source does not tell extended attributes (they need version 4.2); its copies have none",
             Status::kNotSupported, EOPNOTSUPP});
}

void Copier::Tell(const ExtrasOf& objects, const ExtrasReport& report, Matching how, Action action) {
  // A list or a value without room does not mean that the target has no room for files.
  for (const Error& each : report.failures) Complain(objects.source_name, objects.target_name, each);
  if (report.changed && report.failures.empty() && !how.is_new) Done(action, objects.source_name, objects.target_name);
}

}  // namespace penstock::copying
