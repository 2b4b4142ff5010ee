// penstock sha256sum: prints and checks SHA-256 digests of files of a server or of this host.
#include <fmt/core.h>
#include <openssl/evp.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cli/byte_source.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "client/url.h"

namespace penstock::cli {
namespace {

using client::Result;

struct DigestOptions : ClientOptions {
  std::vector<std::string> names;
  bool check = false;
  bool quiet = false;
  bool status = false;
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    valid_ = context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }

  // Takes long for many octets.
  void Add(ConstBytes octets) {
    valid_ = valid_ && EVP_DigestUpdate(context_.get(), octets.data(), octets.size()) == 1;
  }
  // Returns the digest in hexadecimal digits, or nothing if the library has failed.
  std::optional<std::string> Finish() {
    std::array<unsigned char, 32> digest{};
    valid_ = valid_ && EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1;
    if (!valid_) return std::nullopt;
    std::string text;
    for (const unsigned char octet : digest) text += fmt::format("{:02x}", octet);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
  bool valid_ = false;
};

Task<Result<std::string>> DigestOf(ClientRuntime& runtime, ByteSource& source, std::string name) {
  Sha256 digest;
  for (;;) {
    PENSTOCK_CO_TRY(const ConstBytes octets, co_await source.Next());
    if (octets.empty()) break;
    // READs go on meanwhile.
    const auto add = [&digest, octets] {
      digest.Add(octets);
      return true;
    };
    co_await Offload(runtime.loop(), runtime.workers(), add);
  }
  auto text = digest.Finish();
  if (!text) co_return std::unexpected(client::Error{name + ": the library cannot compute SHA-256", std::nullopt});
  co_return *std::move(text);
}

Task<Result<std::string>> DigestOfName(ClientRuntime& runtime, Mounts& mounts, std::string name,
                                       const DigestOptions& options) {
  std::unique_ptr<ByteSource> source;
  if (client::Url::LooksLikeOne(name)) {
    const auto url = ParseUrl(name, options);
    if (!url) co_return std::unexpected(client::Error{url.error().message, std::nullopt});
    PENSTOCK_CO_TRY(const Mounted at, co_await mounts.At(*url));
    PENSTOCK_CO_TRY(source, co_await OpenRemote(runtime, at));
  } else {
    PENSTOCK_CO_TRY(source, co_await OpenLocal(runtime, name));
  }
  auto digest = co_await DigestOf(runtime, *source, name);
  const Result<void> closed = co_await source->Close();
  if (digest && !closed) co_return std::unexpected(closed.error());
  co_return digest;
}

// ---- lines ----

// Writes a line as sha256sum(1) does: a backslash at its beginning says that the name has escapes.
std::string DigestLine(const std::string& digest, const std::string& name) {
  std::string escaped;
  for (const char character : name) {
    if (character == '\\') {
      escaped += "\\\\";
    } else if (character == '\n') {
      escaped += "\\n";
    } else if (character == '\r') {
      escaped += "\\r";
    } else {
      escaped += character;
    }
  }
  return fmt::format("{}{}  {}\n", escaped == name ? "" : "\\", digest, escaped);
}

struct DigestedName {
  std::string digest;
  std::string name;
};

// Reads such a line. Returns nothing for any other.
std::optional<DigestedName> ParseDigestLine(std::string_view line) {
  constexpr size_t kDigits = 64;
  const bool has_escapes = line.starts_with('\\');
  if (has_escapes) line.remove_prefix(1);
  if (line.size() < kDigits + 3 || line[kDigits] != ' ' || (line[kDigits + 1] != ' ' && line[kDigits + 1] != '*')) {
    return std::nullopt;
  }
  DigestedName parsed;
  for (const char digit : line.substr(0, kDigits)) {
    if (!std::isxdigit(static_cast<unsigned char>(digit))) return std::nullopt;
    parsed.digest += static_cast<char>(std::tolower(static_cast<unsigned char>(digit)));
  }
  const std::string_view name = line.substr(kDigits + 2);
  for (size_t i = 0; i < name.size(); ++i) {
    if (!has_escapes || name[i] != '\\') {
      parsed.name += name[i];
      continue;
    }
    const char escaped = ++i < name.size() ? name[i] : '\0';
    if (escaped != '\\' && escaped != 'n' && escaped != 'r') return std::nullopt;
    parsed.name += escaped == 'n' ? '\n' : escaped == 'r' ? '\r' : '\\';
  }
  return parsed;
}

// ---- the command ----

// The results of --check.
struct Checked {
  size_t wrong = 0;       // digests
  size_t unreadable = 0;  // files
  size_t malformed = 0;   // lines
  size_t lines = 0;       // that have a digest
};

Task<Result<void>> CheckLine(ClientRuntime& runtime, Mounts& mounts, const std::string& line,
                             const DigestOptions& options, Checked& checked) {
  const auto parsed = ParseDigestLine(line);
  if (!parsed) {
    ++checked.malformed;
    co_return Result<void>();
  }
  ++checked.lines;
  const auto digest = co_await DigestOfName(runtime, mounts, parsed->name, options);
  std::string_view result = "OK";
  if (!digest) {
    runtime.Report(digest.error());
    ++checked.unreadable;
    result = "FAILED open or read";
  } else if (*digest != parsed->digest) {
    ++checked.wrong;
    result = "FAILED";
  }
  if (options.status || (options.quiet && result == "OK")) co_return Result<void>();
  co_return Print("{}: {}\n", parsed->name, result);
}

Task<Result<void>> CheckLines(ClientRuntime& runtime, Mounts& mounts, ByteSource& list, const DigestOptions& options,
                              Checked& checked) {
  constexpr size_t kMostLine = 1 << 16;
  std::string line;
  for (;;) {
    PENSTOCK_CO_TRY(const ConstBytes octets, co_await list.Next());
    if (octets.empty()) break;
    for (const std::byte octet : octets) {
      if (octet != std::byte{'\n'}) {
        // A longer line is malformed.
        if (line.size() < kMostLine) line += static_cast<char>(octet);
        continue;
      }
      if (!line.empty()) PENSTOCK_CO_CHECK(co_await CheckLine(runtime, mounts, line, options, checked));
      line.clear();
    }
  }
  if (!line.empty()) PENSTOCK_CO_CHECK(co_await CheckLine(runtime, mounts, line, options, checked));
  co_return Result<void>();
}

// Checks the digests in a list, which is a file of this host or of a server.
Task<Result<void>> CheckList(ClientRuntime& runtime, Mounts& mounts, const std::string& name,
                             const DigestOptions& options) {
  std::unique_ptr<ByteSource> list;
  if (client::Url::LooksLikeOne(name)) {
    const auto url = ParseUrl(name, options);
    if (!url) co_return std::unexpected(client::Error{url.error().message, std::nullopt});
    PENSTOCK_CO_TRY(const Mounted at, co_await mounts.At(*url));
    PENSTOCK_CO_TRY(list, co_await OpenRemote(runtime, at));
  } else {
    PENSTOCK_CO_TRY(list, co_await OpenLocal(runtime, name));
  }
  Checked checked;
  Result<void> result = co_await CheckLines(runtime, mounts, *list, options, checked);
  const Result<void> closed = co_await list->Close();
  if (result && !closed) result = closed;
  if (!result) co_return result;
  const auto fail = [&](std::string what) {
    return std::unexpected(client::Error{fmt::format("{}: {}", name, what), std::nullopt});
  };
  if (checked.lines == 0) co_return fail("no line has a SHA-256 digest and a name");
  if (checked.malformed > 0) PrintError(fmt::format("{}: lines without a digest: {}", name, checked.malformed));
  if (checked.wrong > 0) co_return fail(fmt::format("digests that do not match: {}", checked.wrong));
  co_return result;
}

Task<Result<void>> DigestAll(ClientRuntime& runtime, Mounts& mounts, const DigestOptions& options) {
  // Run() needs commands that suspend.
  co_await Sleep(runtime.loop(), Duration::zero());
  for (const std::string& name : options.names) {
    Result<void> done{};
    if (options.check) {
      done = co_await CheckList(runtime, mounts, name, options);
    } else {
      const auto digest = co_await DigestOfName(runtime, mounts, name, options);
      // Output that is lost ends the command.
      if (digest) PENSTOCK_CO_CHECK(WriteOutput(DigestLine(*digest, name)));
      if (!digest) done = std::unexpected(digest.error());
    }
    if (!done) runtime.Report(done.error());
  }
  co_return Result<void>();
}

int Digest(const DigestOptions& options) {
  std::vector<std::string> urls;
  for (const std::string& name : options.names) {
    if (client::Url::LooksLikeOne(name)) urls.push_back(name);
  }
  return RunWithMounts(urls, options, [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>&) {
    return DigestAll(runtime, mounts, options);
  });
}

}  // namespace

Command AddDigest(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("sha256sum", "Print or check SHA-256 digests of files on NFS servers and local files");
  const auto options = std::make_shared<DigestOptions>();
  command
      ->add_option("FILE", options->names,
                   "nfs:// URLs, local files, or - for standard input. With --check, lists of digests")
      ->required();
  CLI::Option* const check = command->add_flag(
      "-c,--check", options->check, "Read digests and names from lists, compute the digests again, and compare them");
  command->add_flag("--quiet", options->quiet, "With --check: print no lines for files whose digests match")
      ->needs(check);
  command->add_flag("--status", options->status, "With --check: only the exit code tells the result")->needs(check);
  AddClientOptions(*command, *options);
  SetFooter(*command, "The lines are those of sha256sum(1), with URLs in place of the names of files.",
            {"# Print the digest of a file", "penstock sha256sum nfs://server.example/images/disk.img",
             "# Check digests that have been stored", "penstock sha256sum --check digests.txt"});
  return {command, [options] { return Digest(*options); }};
}

}  // namespace penstock::cli
