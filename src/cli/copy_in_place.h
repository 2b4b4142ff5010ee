// Copies of one file that write into their target itself: into a pipe or a device, or because the user wants it. All
// other copies go to a temporary file (copying/copier.h).
#pragma once

#include <string>

#include "cli/common_options.h"

namespace penstock::cli {

struct InPlaceOptions {
  std::string from;
  std::string to;
  unsigned in_flight = 8;
  bool in_place = false;  // write into a regular file itself
  bool quiet = false;
};

// These return the exit code.

// Copies the file of the URL `from` to the local file `to`, or to standard output if that is "-". A regular file is
// replaced, unless in_place says otherwise.
int DownloadInPlace(const InPlaceOptions& options, const ClientOptions& client);
// Copies the local regular file `from` into the file of the URL `to`.
int UploadInPlace(const InPlaceOptions& options, const ClientOptions& client);

}  // namespace penstock::cli
