// The arguments of the commands of the control socket (docs/control.md).
#pragma once

#include <cstdint>
#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/result.h"
#include "server/administration.h"

namespace penstock::cli {

using Json = nlohmann::json;

// The error of a command, for the operator.
std::unexpected<SetupError> Fail(std::string why);

// A member of `arguments`; nothing if it is missing. The error says that it has another type.
SetupResult<std::optional<std::string>> TextIn(const Json& arguments, const char* name);
SetupResult<std::optional<uint64_t>> NumberIn(const Json& arguments, const char* name);
// As TextIn(), but a missing member is an error.
SetupResult<std::string> RequiredText(const Json& arguments, const char* name);

// The following return nothing if the text is none.

// An address of version 4 that is mapped into version 6 becomes one of version 4.
std::optional<IpAddress> AddressIn(const std::string& text);
// A client or a state as TextOf() in control_json.h writes it. The seqid of the stateid is zero.
std::optional<nfs::v4::ClientId> ParseClientId(std::string_view text);
std::optional<nfs4::stateid4> ParseStateId(std::string_view text);

}  // namespace penstock::cli
