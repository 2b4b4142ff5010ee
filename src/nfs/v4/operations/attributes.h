// The values of attributes for GETATTR, VERIFY and READDIR.
#pragma once

#include "base/task.h"
#include "nfs/v4/attributes/attribute_values.h"
#include "nfs/v4/engine/compound.h"

namespace penstock::nfs::v4 {

// The attributes that the object's file system supports in a dialect.
AttributeSet SupportedBy(const Object& object, const Dialect& dialect);

// Returns the values that are known without a call to the file system.
AttributeValues ValuesOf(const Compound& compound, const Object& object);

// Loads the values that the attributes of `set` need, with as few calls to the file system as possible.
Task<nfs4::nfsstat4> LoadAttributes(Compound& compound, const Object& object, const AttributeSet& set,
                                    AttributeValues& values);

}  // namespace penstock::nfs::v4
