// Where GETATTR, VERIFY and READDIR get the values of attributes from.
#pragma once

#include "base/task.h"
#include "nfs/v4/attributes/attribute_values.h"
#include "nfs/v4/engine/compound.h"

namespace penstock::nfs::v4 {

// What is known of an object without asking its file system.
AttributeValues ValuesOf(const Compound& compound, const Object& object);

// Fills in what the attributes of `set` need, and asks the file system for no more than that.
Task<nfs4::nfsstat4> LoadAttributes(Compound& compound, const Object& object, const AttributeSet& set,
                                    AttributeValues& values);

}  // namespace penstock::nfs::v4
