// The ends of the copies of a command: finds where the arguments of the command line lead, on this machine and on
// servers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/client_runtime.h"
#include "cli/common_options.h"
#include "cli/mounts.h"
#include "copying/local_tree.h"
#include "copying/remote_tree.h"

namespace penstock::cli {

// Where an argument leads.
struct CopyEnd {
  copying::Tree* tree = nullptr;
  std::shared_ptr<copying::Directory> directory{};  // the directory of the object, or the object itself
  std::string name{};                               // in the directory; empty: the object is the directory itself
  std::string given_name{};                         // the last part of the argument, which may be a symbolic link
  std::optional<copying::Entry> entry{};  // absent: nothing has the name, or the object is the directory itself

  bool is_directory() const {
    return name.empty() || (entry && entry->attributes.type == client::FileType::kDirectory);
  }
  // The name in messages.
  std::string text() const { return name.empty() ? directory->name() : directory->NameOf(name); }
  // Opens the object, a directory.
  Task<client::Result<std::shared_ptr<copying::Directory>>> Open() const;
};

class CopyEnds {
 public:
  // All outlive this. The URLs of the arguments have been parsed once without an error.
  CopyEnds(ClientRuntime& runtime, Mounts& mounts, const AccessOptions& options);
  ~CopyEnds();
  CopyEnds(const CopyEnds&) = delete;
  CopyEnds& operator=(const CopyEnds&) = delete;

  // Finds a target, or one source. Follows symbolic links, in the last component only if `follow` is true. Nothing but
  // the last component may be absent.
  Task<client::Result<CopyEnd>> Find(const std::string& argument, bool follow);
  // Finds sources, which exist. If no object has the name of a URL, its last components may be patterns.
  Task<client::Result<std::vector<CopyEnd>>> FindSources(const std::string& argument, bool follow);

 private:
  Task<client::Result<CopyEnd>> FindLocal(std::string path, bool follow);
  Task<client::Result<CopyEnd>> FindRemote(const client::Url& url, bool follow);
  Task<client::Result<void>> Expand(CopyEnd at, const std::vector<std::string>& patterns, size_t index,
                                    std::vector<CopyEnd>& found);
  copying::RemoteTree& TreeOf(const client::Url& url, const Mounted& mounted);

  Mounts& mounts_;
  const AccessOptions& options_;
  copying::LocalTree local_;
  std::map<client::Mount*, std::unique_ptr<copying::RemoteTree>> trees_;
};

}  // namespace penstock::cli
