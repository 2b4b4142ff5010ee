// Opens the directories of the exports that the operator has configured.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "base/workers.h"
#include "fs/audited/file_system.h"
#include "fs/ceph/module.h"
#include "fs/ceph/served_directories.h"
#include "fs/posix/served_directories.h"
#include "nfs/export_options.h"
#include "server/parts.h"

namespace penstock::cli {

// One thread at a time.
class ServedExports {
 public:
  // `pool` outlives all file systems. `faults`: see fs::faulty::WithFaults(). `audit`: gets the records of all
  // operations; may be null. `server`: see fs::ceph::ServedDirectories. `load_ceph_module`: another function than
  // fs::ceph::LoadModule() only in tests.
  ServedExports(Workers& pool, const fs::posix::ServedDirectoriesOptions& options, std::string faults,
                std::shared_ptr<fs::audited::AuditLog> audit = nullptr, std::string server = "",
                fs::ceph::ServedDirectories::Load load_ceph_module = &fs::ceph::LoadModule)
      : directories_(pool, options),
        cephfs_(std::move(load_ceph_module), std::move(server)),
        faults_(std::move(faults)),
        audit_(std::move(audit)) {}

  // The exports for the server. Directories that are open already, with the same handles, stay so, and so do file
  // systems of CephFS.
  //
  // An export of a table (ExportSpec::place) is left out, with a finding, if its directory is missing, or not mounted
  // although it has the option mountpoint, or if its file system of CephFS cannot be opened: a disk or a cluster that
  // is gone must not keep others from being served. The file systems that are mounted below an export with the option
  // crossmnt become exports of their own. Any other trouble is an error.
  //
  // On the thread that fs::posix::ServedDirectories::Open() asks for.
  SetupResult<std::vector<server::Export>> Open(std::vector<nfs::ExportSpec> specs, std::vector<Finding>& findings);

  fs::posix::ServedDirectories& directories() { return directories_; }

 private:
  // Returns a file system in front of `files` that keeps the audit log: the one of before, if it still lives.
  std::shared_ptr<fs::FileSystem> Audited(std::shared_ptr<fs::FileSystem> files, const std::string& path);

  fs::posix::ServedDirectories directories_;
  fs::ceph::ServedDirectories cephfs_;
  const std::string faults_;
  const std::shared_ptr<fs::audited::AuditLog> audit_;
  std::vector<std::weak_ptr<fs::audited::FileSystem>> audited_;
};

// A finding about an export, at its place in a table.
Finding FindingAt(const nfs::ExportSpec& spec, Severity severity, std::string message);

// What is wrong with the directories of these exports, without opening them: the findings of Open(), and errors. No
// cluster is asked.
std::vector<Finding> CheckDirectories(const std::vector<nfs::ExportSpec>& specs);

}  // namespace penstock::cli
