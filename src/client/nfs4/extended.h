// Extended attributes (RFC 8276) and access control lists (RFC 8881 §6.2.1). See client::Mount.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/mount.h"
#include "client/nfs4/compound_caller.h"

namespace penstock::client::v4 {

// These fail with Status::kNotSupported in other dialects than version 4.2.
Task<Result<std::vector<std::byte>>> GetXattr(CompoundCaller& caller, const Handle& object, std::string_view what,
                                              std::string_view name);
Task<Result<void>> SetXattr(CompoundCaller& caller, const Handle& object, std::string_view what, std::string_view name,
                            ConstBytes value, XattrMode mode);
Task<Result<std::vector<std::string>>> ListXattrs(CompoundCaller& caller, const Handle& object, std::string_view what);
Task<Result<void>> RemoveXattr(CompoundCaller& caller, const Handle& object, std::string_view what,
                               std::string_view name);

Task<Result<std::vector<Ace>>> GetAcl(CompoundCaller& caller, const Handle& object, std::string_view what);
Task<Result<void>> SetAcl(CompoundCaller& caller, const Handle& object, std::string_view what,
                          const std::vector<Ace>& acl);

}  // namespace penstock::client::v4
