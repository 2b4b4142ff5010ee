#include "cli/control_arguments.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/host.h"
#include "base/texts.h"

namespace penstock::cli {

using nfs::v4::ClientId;

std::unexpected<SetupError> Fail(std::string why) { return std::unexpected(SetupError{std::move(why)}); }

SetupResult<std::optional<std::string>> TextIn(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end()) return std::nullopt;
  if (!found->is_string()) return Fail(fmt::format("\"{}\" must be a text", name));
  return found->get<std::string>();
}

SetupResult<std::string> RequiredText(const Json& arguments, const char* name) {
  PENSTOCK_TRY(std::optional<std::string> text, TextIn(arguments, name));
  if (!text) return Fail(fmt::format("the argument \"{}\" is missing", name));
  return *std::move(text);
}

SetupResult<std::optional<uint64_t>> NumberIn(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end()) return std::nullopt;
  if (!found->is_number_unsigned()) return Fail(fmt::format("\"{}\" must be a whole number", name));
  return found->get<uint64_t>();
}

std::optional<IpAddress> AddressIn(const std::string& text) {
  asio::error_code error;
  const IpAddress address = asio::ip::make_address(text, error);
  if (error) return std::nullopt;
  return Unmapped(address);
}

std::optional<ClientId> ParseClientId(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return ClientId(value);
}

std::optional<nfs4::stateid4> ParseStateId(std::string_view text) {
  nfs4::stateid4 id{};
  return FromHexadecimal(text, id.other) ? std::optional(id) : std::nullopt;
}

}  // namespace penstock::cli
