// CREATE, MKDIR, SYMLINK.
#include "nfs/v2/convert.h"
#include "nfs/v2/procedures.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

namespace {

Reply<diropok> Answer(Target& target, const fs::Changed<fs::Node>& changed) {
  if (!changed.result) co_return std::unexpected(changed.result.error());
  const fs::Node& made = *changed.result;
  diropok ok;
  PENSTOCK_CO_TRY(ok.file, target.HandleOf(made.handle));
  if (made.existed) {
    PENSTOCK_CO_TRY(ok.attributes, co_await target.Attributes(made.handle, made.attributes));
  } else {
    PENSTOCK_CO_TRY(ok.attributes, ToAttributes(made.attributes));
  }
  co_return ok;
}

}  // namespace

// RFC 1094 §2.2.10. A file that exists is accepted, and only a size of zero is applied to it: the call cannot say
// whether the file must be new.
Reply<diropok> Create(Request request, const createargs& arguments) {
  Target target(request, arguments.where.dir);
  if (!target) co_return std::unexpected(target.error());
  if (target.read_only()) co_return std::unexpected(fs::Error::kReadOnly);
  PENSTOCK_CO_TRY(const NewObject object, FromCreation(arguments.attributes));
  if (!object.is_file) {
    const auto made = co_await target.file_system().MakeNode(target.context(), target.object(), arguments.where.name,
                                                             object.node, object.attributes);
    co_return co_await Answer(target, made);
  }
  if (object.attributes.size == 0 && target.may_be_claimed()) {
    PENSTOCK_CO_CHECK(co_await target.CheckUse(target.object(), arguments.where.name, FileClaims::Use::kWrite));
  }
  fs::CreateHow how;
  how.mode = fs::CreateMode::kUnchecked;
  how.attributes = object.attributes;
  const auto changed =
      co_await target.file_system().Create(target.context(), target.object(), arguments.where.name, how);
  co_return co_await Answer(target, changed);
}

// RFC 1094 §2.2.15
Reply<diropok> MakeDirectory(Request request, const createargs& arguments) {
  Target target(request, arguments.where.dir);
  if (!target) co_return std::unexpected(target.error());
  if (target.read_only()) co_return std::unexpected(fs::Error::kReadOnly);
  PENSTOCK_CO_TRY(fs::NewAttributes values, FromNewAttributes(arguments.attributes));
  values.size.reset();
  const auto changed =
      co_await target.file_system().MakeDirectory(target.context(), target.object(), arguments.where.name, values);
  co_return co_await Answer(target, changed);
}

// RFC 1094 §2.2.14. The mode of a symbolic link has no meaning.
Reply<void> MakeSymlink(Request request, const symlinkargs& arguments) {
  Target target(request, arguments.from.dir);
  if (!target) co_return std::unexpected(target.error());
  if (target.read_only()) co_return std::unexpected(fs::Error::kReadOnly);
  PENSTOCK_CO_TRY(fs::NewAttributes values, FromNewAttributes(arguments.attributes));
  values.size.reset();
  values.mode.reset();
  const auto changed = co_await target.file_system().MakeSymlink(target.context(), target.object(), arguments.from.name,
                                                                 arguments.to.text(), values);
  if (!changed.result) co_return std::unexpected(changed.result.error());
  co_return fs::Result<void>();
}

}  // namespace penstock::nfs::v2
