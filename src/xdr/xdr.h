// Includes all that users of generated types need: encoding, decoding, sizes and printing.
#pragma once

#include "xdr/decode.h"   // IWYU pragma: export
#include "xdr/encode.h"   // IWYU pragma: export
#include "xdr/flatten.h"  // IWYU pragma: export
#include "xdr/message.h"  // IWYU pragma: export
#include "xdr/print.h"    // IWYU pragma: export
