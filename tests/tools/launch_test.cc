// alpa launch: which endings start the command again, with how many processes and on which hosts;
// signals, and what is left behind. Scripts stand for mpirun, srun, squeue and ssh.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace launch_test {

using namespace alpa::testing;
namespace fs = std::filesystem;

namespace {

/// A folder with scripts, which a run finds before all other programs.
class Scripts {
 public:
  Scripts() { fs::create_directories(folder_.path()); }

  void add(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << "#!/bin/sh\n" << text;
    fs::permissions(path(name), fs::perms::owner_all);
  }

  /// An mpirun (or srun) that prints its arguments, and ends like each of these in turn: a status,
  /// or a signal's name.
  void add_launcher(const std::string& name, const std::string& endings) const {
    std::ofstream(path("endings")) << endings;
    add(name, "echo \"" + name + " $*\"\nread -r end rest <" + path("endings") +
                  "\necho \"$rest\" >" + path("endings") +
                  "\ncase $end in [A-Z]*) kill -$end $$;; *) exit $end;; esac\n");
  }

  /// What alpa launch prints, line for line as it comes.
  ProgramOutput run(const std::string& arguments) const {
    return run_shell("cd " + quoted(path("")) + " && PATH=" + quoted(path("")) +
                     ":$PATH " ALPA_TOOL " launch " + arguments);
  }

  std::string path(const std::string& name) const { return fs::absolute(folder_.path()) / name; }

 private:
  const TemporaryFolder folder_{"launch_test"};
};

ProgramOutput launched(const std::string& endings, const std::string& arguments) {
  const Scripts scripts;
  scripts.add_launcher("mpirun", endings);
  return scripts.run(arguments);
}

/// Waits until the file has a line; that line.
std::string line_of(const std::string& path) {
  for (int i = 0; i < 2000; ++i) {
    std::ifstream file(path);
    if (std::string line; std::getline(file, line) && !file.eof()) return line;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "";
}

/// Whether the process ends within 20 s.
bool ends(pid_t process) {
  for (int i = 0; i < 2000; ++i) {
    if (kill(process, 0) != 0) return true;
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(file, text);
    if (text.find(") Z ") != text.npos) return true;  // nobody has asked for its status
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("a lost process starts the same command again, and success ends it") {
  const ProgramOutput output = launched("75 0", "-- mpirun -n 8 ./train --resume");
  CHECK(output.text ==
        "mpirun -n 8 ./train --resume\n"
        "alpa launch: a process was lost (status 75); restart 1 of 3 with 8 processes\n"
        "mpirun -n 8 ./train --resume\n");
  CHECK(output.status == 0);
}

TEST_CASE("mistakes, bugs and an end that was asked for are passed on at once") {
  for (const int status : {0, 1, 2, 3, 126}) {  // 1: of mpirun, before anything ran
    const ProgramOutput output = launched(std::to_string(status) + " 0", "-- mpirun -n 2 x");
    CHECK(output.text == "mpirun -n 2 x\n");
    CHECK(output.status == status);
  }
  for (const char* status : {"143", "130"})  // checkpoint saved on SIGTERM or SIGINT
    CHECK(launched(std::string(status) + " 0", "-- mpirun -n 2 x; echo status $?").text ==
          "mpirun -n 2 x\nstatus " + std::string(status) + "\n");
}

TEST_CASE("a signal starts it again until no restart is left, and its status is passed on") {
  const ProgramOutput output =
      launched("KILL SEGV 75", "--restarts 2 -- mpirun --np=4 x; echo status $?");
  CHECK(output.text ==
        "mpirun --np=4 x\n"
        "alpa launch: mpirun was ended by SIGKILL (status 137); restart 1 of 2 with 4 processes\n"
        "mpirun --np=4 x\n"
        "alpa launch: mpirun was ended by SIGSEGV (status 139); restart 2 of 2 with 4 processes\n"
        "mpirun --np=4 x\n"
        "alpa launch: a process was lost (status 75); no restart is left of 2\n"
        "status 75\n");
}

TEST_CASE("--shrink takes one process fewer each time, down to --least") {
  const ProgramOutput output =
      launched("75 137 1 75", "--shrink --least 3 -- mpirun -n4 x --devices {processes} -n 7");
  CHECK(output.text ==
        "mpirun -n4 x --devices 4 -n 7\n"
        "alpa launch: a process was lost (status 75); restart 1 of 3 with 3 processes\n"
        "mpirun -n3 x --devices 3 -n 7\n"
        "alpa launch: mpirun was ended by SIGKILL (status 137); 2 processes are left, and --least "
        "is 3\n");
  CHECK(output.status == -1);  // 137
}

TEST_CASE("with --shrink, a launcher that finds too few slots at a restart gets fewer processes") {
  CHECK(launched("75 1 0", "--shrink -- mpirun -n 3 x").text ==
        "mpirun -n 3 x\n"
        "alpa launch: a process was lost (status 75); restart 1 of 3 with 2 processes\n"
        "mpirun -n 2 x\n"
        "alpa launch: mpirun failed (status 1); restart 2 of 3 with 1 process\n"
        "mpirun -n 1 x\n");
}

TEST_CASE("hosts of mpirun that ssh does not reach are left out, with their slots") {
  const Scripts scripts;
  scripts.add("ssh", "case \"$*\" in *n2*) exit 255;; esac\n");
  scripts.add_launcher("mpirun", "1 0");
  CHECK(scripts.run("-- mpirun -n 10 --host n1:4,n2:4,n3:2 x").text ==
        "mpirun -n 10 --host n1:4,n2:4,n3:2 x\n"
        "alpa launch: mpirun failed (status 1); n2 cannot be reached; restart 1 of 3 with 6 "
        "processes\n"
        "mpirun -n 6 --host n1:4,n3:2 x\n");
  std::ofstream(scripts.path("hosts")) << "n1 slots=4\n# all\nn2 slots=4 # old\nn3 slots=2\n";
  scripts.add("mpirun", "echo $2\ncat $4\nexit 75\n");
  CHECK(scripts.run("--restarts 1 -- mpirun -n 10 --hostfile hosts x").text ==
        "10\nn1 slots=4\n# all\nn2 slots=4 # old\nn3 slots=2\n"
        "alpa launch: a process was lost (status 75); n2 cannot be reached; restart 1 of 1 with 6 "
        "processes\n"
        "6\nn1 slots=4\nn3 slots=2\n"
        "alpa launch: a process was lost (status 75); no restart is left of 1\n");
}

TEST_CASE("in a job of Slurm, srun gets the nodes that are left") {
  const Scripts scripts;
  scripts.add("squeue", "echo \"3 n[1-2,4]\"\n");
  scripts.add_launcher("srun", "137 0");
  std::ofstream(scripts.path("job")) << "export SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=4 SLURM_NNODES=4"
                                        " SLURM_JOB_NODELIST='n[1-4]' SLURM_NTASKS=8"
                                        " SLURM_TASKS_PER_NODE='2(x4)'\n";
  const ProgramOutput output = run_shell(
      "cd " + quoted(scripts.path("")) + " && . ./job && PATH=" + quoted(scripts.path("")) +
      ":$PATH " ALPA_TOOL " launch -- sh -c '" +
      "srun \"$@\" && env | grep ^SLURM | sort' srun -N 4 --ntasks=8 --mpi=pmix x");
  CHECK(output.text ==
        "srun -N 4 --ntasks=8 --mpi=pmix x\n"
        "alpa launch: sh was ended by SIGKILL (status 137); 3 of 4 nodes are left (n[1-2,4]); "
        "restart 1 of 3 with 6 processes\n"
        "srun -N 3 --ntasks=6 --mpi=pmix x\n"
        "SLURM_JOB_ID=7\nSLURM_JOB_NODELIST=n[1-2,4]\nSLURM_JOB_NUM_NODES=3\n"
        "SLURM_NNODES=3\nSLURM_NODELIST=n[1-2,4]\nSLURM_TASKS_PER_NODE=2(x3)\n");
}

TEST_CASE("SIGTERM is passed on, ends it, and leaves no process") {
  const Scripts scripts;
  scripts.add("mpirun",
              "sleep 999 & echo $! >" + scripts.path("child") + "\ntrap 'exit 143' TERM\nwait\n");
  const pid_t launch = start_program({ALPA_TOOL, "launch", "--", scripts.path("mpirun")}, [] {});
  const pid_t child = std::stoi(line_of(scripts.path("child")));
  kill(launch, SIGTERM);
  int status = 0;
  CHECK(waitpid(launch, &status, 0) == launch);
  CHECK(WEXITSTATUS(status) == 143);
  CHECK(ends(child));
}

TEST_CASE("what a killed launcher leaves is ended before the next start") {
  const Scripts scripts;
  scripts.add("mpirun",
              "setsid sleep 999 & echo $! >>" + scripts.path("children") + "\nkill -KILL $$\n");
  scripts.run("--restarts 1 -- mpirun -n 1 x");
  std::ifstream children(scripts.path("children"));
  int count = 0;
  for (pid_t child; children >> child; ++count) CHECK(ends(child));
  CHECK(count == 2);
}

TEST_CASE("a killed alpa launch takes its command with it") {
  const Scripts scripts;
  scripts.add("mpirun", "echo $$ >" + scripts.path("child") + "\nexec sleep 999\n");
  const pid_t launch = start_program({ALPA_TOOL, "launch", "--", scripts.path("mpirun")}, [] {});
  const pid_t child = std::stoi(line_of(scripts.path("child")));
  kill(launch, SIGKILL);
  waitpid(launch, nullptr, 0);
  CHECK(ends(child));
}

TEST_CASE("mistakes of alpa launch are one line") {
  const auto mistake = [](const std::string& arguments) {
    const ProgramOutput output = run_shell(ALPA_TOOL " launch " + arguments);
    CHECK(output.status == 2);
    return output.text;
  };
  CHECK(mistake("--") ==
        "alpa: nothing to start; write it behind --: alpa launch -- mpirun -n 8 ./train "
        "--resume\n");
  CHECK(mistake("-- /nowhere/mpirun -n 2 x") ==
        "alpa: /nowhere/mpirun does not start: No such file or directory\n");
  CHECK(mistake("--least 9 -- mpirun -n 8 x") ==
        "alpa: --least is 9, but the command starts 8 processes\n");
  CHECK(mistake("--shrink -- ./train") ==
        "alpa: --shrink needs a command that says how many processes: mpirun -n 8, srun --ntasks "
        "8\n");
  CHECK(
      run_shell(
          "ALPA_MPI_LIBRARY=/nowhere/x.so OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 " ALPA_TOOL
          " launch -- true")
          .text ==
      "alpa: alpa launch was started by mpirun itself; start it once: alpa launch -- mpirun …\n");
}

}  // namespace launch_test
