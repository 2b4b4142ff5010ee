// FSSTAT, FSINFO, PATHCONF.
#include "nfs/v3/convert.h"
#include "nfs/v3/procedures.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

// RFC 1813 §3.3.18
Task<FSSTAT3res> FileSystemStatus(Request request, const FSSTAT3args& arguments) {
  Target target(request, arguments.fsroot);
  if (!target) co_return FSSTAT3res(target.status());

  const auto observed = co_await target.file_system().GetSpace(target.context(), target.object());
  const post_op_attr attributes = target.PostAttributes(observed.attributes);
  if (!observed.result) {
    co_return FSSTAT3res(ToStatus(observed.result.error()), FSSTAT3resfail{.obj_attributes = attributes});
  }
  const fs::Space& space = *observed.result;
  co_return FSSTAT3res(NFS3_OK, FSSTAT3resok{.obj_attributes = attributes,
                                             .tbytes = space.total_bytes,
                                             .fbytes = space.free_bytes,
                                             .abytes = space.available_bytes,
                                             .tfiles = space.total_files,
                                             .ffiles = space.free_files,
                                             .afiles = space.available_files,
                                             .invarsec = 0});  // the values may change at any time
}

// RFC 1813 §3.3.19. RFC 2623 §2.3.2: clients call this and GETATTR for the root during the mount, before any user has a
// ticket.
Task<FSINFO3res> FileSystemInformation(Request request, const FSINFO3args& arguments) {
  Target target(request, arguments.fsroot, Target::Flavors::kAnyAtRoot);
  if (!target) co_return FSINFO3res(target.status());

  const auto attributes = co_await target.file_system().GetAttributes(target.context(), target.object());
  if (!attributes) co_return FSINFO3res(ToStatus(attributes.error()));
  const fs::Properties& properties = target.file_system().GetProperties();
  const Settings& settings = request.settings;
  constexpr uint32_t kMultiple = 4096;  // transfers of whole pages
  co_return FSINFO3res(NFS3_OK, FSINFO3resok{.obj_attributes = target.PostAttributes(*attributes),
                                             .rtmax = settings.max_read,
                                             .rtpref = settings.max_read,
                                             .rtmult = kMultiple,
                                             .wtmax = settings.max_write,
                                             .wtpref = settings.max_write,
                                             .wtmult = kMultiple,
                                             .dtpref = settings.max_directory,
                                             .maxfilesize = properties.max_file_size,
                                             .time_delta = ToTime(properties.time_granularity),
                                             .properties = (properties.hard_links ? FSF3_LINK : 0) |
                                                           (properties.symlinks ? FSF3_SYMLINK : 0) |
                                                           (properties.homogeneous ? FSF3_HOMOGENEOUS : 0) |
                                                           (properties.can_set_time ? FSF3_CANSETTIME : 0)});
}

// RFC 1813 §3.3.20
Task<PATHCONF3res> PathConfiguration(Request request, const PATHCONF3args& arguments) {
  Target target(request, arguments.object);
  if (!target) co_return PATHCONF3res(target.status());

  const auto attributes = co_await target.file_system().GetAttributes(target.context(), target.object());
  if (!attributes) co_return PATHCONF3res(ToStatus(attributes.error()));
  const fs::Properties& properties = target.file_system().GetProperties();
  co_return PATHCONF3res(NFS3_OK, PATHCONF3resok{.obj_attributes = target.PostAttributes(*attributes),
                                                 .linkmax = properties.link_max,
                                                 .name_max = properties.name_max,
                                                 .no_trunc = properties.no_truncate,
                                                 .chown_restricted = properties.chown_restricted,
                                                 .case_insensitive = properties.case_insensitive,
                                                 .case_preserving = properties.case_preserving});
}

}  // namespace penstock::nfs::v3
