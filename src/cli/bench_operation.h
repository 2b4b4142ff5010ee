// The operations that `penstock bench` measures, and their names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::cli {

// The work that a measurement repeats.
struct Operation {
  enum class Kind : uint8_t {
    kNull,
    kGetAttributes,
    kSetAttributes,  // sets the mode of a file
    kLookup,         // finds a file in its directory
    kStat,           // finds a file of a tree by its path
    kReadDirectory,  // lists a directory with its attributes
    kOpen,           // opens a file and closes it
    kCreate,         // creates an empty file and closes it
    kRemove,         // removes an empty file
    kRename,         // gives a file another name in its directory
    kMakeDirectory,  // makes a directory and removes it
    kRead,
    kWrite,
    kMix,  // READs and WRITEs
  };
  // The places of READs and WRITEs in the file.
  enum class Order : uint8_t {
    kUsual,       // the largest operations go through the file from its beginning, all others to random places
    kSequential,  // from the beginning of the file to its end, and again
    kRandom,
  };
  Kind kind = Kind::kNull;
  uint32_t size = 0;  // the octets of one READ or WRITE; 0 for the other kinds
  Order order = Order::kUsual;
  bool operator==(const Operation&) const = default;

  bool has_size() const { return kind == Kind::kRead || kind == Kind::kWrite || kind == Kind::kMix; }
  bool is_sequential() const;
};

// The size of the largest READ or WRITE.
inline constexpr uint32_t kLargestOperation = 1 << 20;

// The names of operations, for a help text.
inline constexpr std::string_view kOperationNames =
    "null, getattr, setattr, lookup, stat, readdir, open, create, remove, rename, mkdir, and readSIZE, writeSIZE, "
    "mixSIZE "
    "(4k, 64k, 1m, ...), also with seq or rand before it";

// The name of an operation in --ops and in the reports. READs and WRITEs have a size from 1k to 1m, for example
// write64k or seqread4k.
std::string NameOf(Operation operation);
std::optional<Operation> OperationOf(std::string_view name);

}  // namespace penstock::cli
