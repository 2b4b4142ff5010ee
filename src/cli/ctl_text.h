// What `penstock ctl` asks the server, and how it shows the answers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock::cli {

using Json = nlohmann::json;

// The words and options of a command line.
struct ControlWords {
  std::string command;
  std::vector<std::string> arguments{};
  std::string client{};  // empty: of all clients
  std::string path{};    // empty: of all files
  std::optional<uint64_t> limit{};
};

// All commands of `penstock ctl`, in the order of its manual page.
const std::vector<std::string>& ControlCommandNames();

struct ControlRequest {
  std::string command;
  std::vector<Json> arguments;  // one request for each, one after another
};
// The requests for the control socket. The error says which words the command takes. `top` has none: see TopText().
SetupResult<ControlRequest> RequestFor(const ControlWords& words);

// The result of a command as a table or in sentences, with a line break at its end. Empty if there is nothing to say.
std::string ResultText(std::string_view command, const Json& result);

// The difference of two results of "counters", `seconds` apart, per second: in all, by client, export and operation,
// with the mean time of an operation. At most `rows` of each, the busiest first.
std::string TopText(const Json& before, const Json& after, double seconds, size_t rows);

}  // namespace penstock::cli
