// Converts attributes between the C API and the inner client.
#pragma once

#include "client/mount.h"
#include "penstock/penstock.h"

namespace penstock::library {

penstock_attributes ConvertAttributes(const client::Attributes& attributes);
// Returns zero or a negative errno.
int TakeNewAttributes(const penstock_new_attributes* from, client::NewAttributes& to);

}  // namespace penstock::library
