// The commands of the program. Each takes its options, parsed, and gives an exit code: 0, or 1 after one line on stderr.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::cli {

// Which RDMA: auto, verbs or iwarp; and of verbs, which device.
struct RdmaOptions {
  std::string rdma = "auto";
  std::string device;
};

// What every command of a client is told.
struct ClientOptions {
  // The version of NFS that the command insists on, as in a URL; empty: what the URL says.
  std::string vers;
  // A capture file to be made of what the command's RDMA connections carry; empty: none.
  std::string trace;
  RdmaOptions rdma;
};

struct PingOptions : ClientOptions {
  std::string url;
  unsigned count = 4;
  unsigned interval_ms = 1000;
};
int Ping(const PingOptions& options);

struct ListOptions : ClientOptions {
  std::string url;
  bool long_format = false;
};
int List(const ListOptions& options);

struct CatOptions : ClientOptions {
  std::vector<std::string> urls;
};
int Cat(const CatOptions& options);

struct CopyCommandOptions : ClientOptions {
  std::string from;
  std::string to;
  unsigned in_flight = 8;
  bool in_place = false;  // a local target is not replaced but written into
  bool quiet = false;
};
int Copy(const CopyCommandOptions& options);

struct MakeDirectoryOptions : ClientOptions {
  std::vector<std::string> urls;
  std::string mode = "755";
};
int MakeDirectory(const MakeDirectoryOptions& options);

struct RemoveOptions : ClientOptions {
  std::vector<std::string> urls;
  bool directories = false;  // rmdir
};
int Remove(const RemoveOptions& options);

struct MoveOptions : ClientOptions {
  std::string url;
  std::string to;  // a path on the same server
};
int Move(const MoveOptions& options);

struct LinkOptions : ClientOptions {
  std::string from;  // a URL; of a symbolic link, its text
  std::string to;    // a path on the same server; of a symbolic link, a URL
  bool symbolic = false;
};
int Link(const LinkOptions& options);

struct ChangeModeOptions : ClientOptions {
  std::string mode;
  std::vector<std::string> urls;
};
int ChangeMode(const ChangeModeOptions& options);

struct BenchOptions {
  std::string url;  // of a directory
  std::vector<std::string> operations = {"null", "getattr", "read1m", "write1m", "read4k", "write4k"};
  std::vector<unsigned> depths = {1, 8, 32};
  double seconds = 1;  // for each measurement
  uint64_t file_size = 64 << 20;
  std::string json;  // a file; empty: none
  std::string vers;  // see ClientOptions
  RdmaOptions rdma;
  int32_t server_pid = 0;  // 0: the server is elsewhere, or of no interest
};
int Bench(const BenchOptions& options);

struct ServeOptions {
  std::string directory;
  std::vector<std::string> exports;
  std::string listen = "127.0.0.1";
  uint16_t tcp_port = 2049;
  uint16_t rdma_port = 20049;
  uint16_t mount_port = 20048;
  unsigned threads = 0;  // 0: one for each processor
  unsigned workers = 64;
  std::string state_directory;
  size_t max_connections = 1024;
  size_t max_connections_per_address = 0;  // 0: a quarter of all
  double idle_seconds = 10;
  uint64_t memory = 0;  // octets; 0: a part of what there is
  double stall_seconds = 60;
  bool crc = true;
  std::string trace;
  std::string faults;  // of the exports' files, for tests; see server::Options
  double lease_seconds = 90;
  double grace_seconds = 90;
  bool no_delegations = false;
  std::string nfs4_domain;
  std::string keytab;
  bool manage_gids = false;
  RdmaOptions rdma;
};
int Serve(const ServeOptions& options);

// What RDMA devices there are, and what would be done with each.
int Devices();

}  // namespace penstock::cli
