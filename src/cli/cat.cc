// penstock cat: writes files of a server to standard output.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cli/byte_source.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"

namespace penstock::cli {
namespace {

struct CatOptions : ClientOptions {
  std::vector<std::string> urls;
};

Task<client::Result<void>> CatFile(ClientRuntime& runtime, ByteSource& source) {
  for (;;) {
    PENSTOCK_CO_TRY(const ConstBytes octets, co_await source.Next());
    if (octets.empty()) co_return client::Result<void>();
    PENSTOCK_CO_CHECK(co_await WriteBytes(runtime, octets));
  }
}

Task<client::Result<void>> CatOne(ClientRuntime& runtime, const Mounted& at) {
  PENSTOCK_CO_TRY(const auto source, co_await OpenRemote(runtime, at));
  client::Result<void> result = co_await CatFile(runtime, *source);
  client::Result<void> closed = co_await source->Close();
  if (!result) co_return result;
  co_return closed;
}

}  // namespace

Command AddCat(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("cat", "Write files of an NFS server to standard output");
  const auto options = std::make_shared<CatOptions>();
  command->add_option("URL", options->urls, "The files to write, one after the other")->required();
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Print a file", "penstock cat nfs://server.example/notes.txt", "# Join two files by version 3 of NFS",
             "penstock cat --vers 3 nfs://server.example/a nfs://server.example/b > both"});
  return {command, [options] { return RunOnMounts(options->urls, *options, CatOne); }};
}

}  // namespace penstock::cli
