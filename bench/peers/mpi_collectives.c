/* What MPI's own collectives take, for bench_collectives: mpicc -O2, then mpirun -n 4. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

/* As in bench_collectives. */
static int calls_of(long bytes, int rounds) {
  const long times = (1L << 20) / bytes;
  return rounds * (int)(times < 1 ? 1 : times > 20 ? 20 : times);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? atoi(argv[1]) : 15;
  const char* kinds[] = {"all_reduce", "all_gather", "reduce_scatter"};
  for (int kind = 0; kind < 3; ++kind)
    for (long bytes = 4096; bytes <= 64L << 20; bytes *= 4) {
      const int whole = (int)(bytes / 4), shard = whole / size;
      float *in = malloc(bytes), *out = malloc(bytes);
      for (int i = 0; i < whole; ++i) in[i] = out[i] = 1;
      const int calls = calls_of(bytes, rounds);
      double* seconds = malloc((calls + 1) * sizeof(double));
      for (int i = 0; i <= calls; ++i) {
        const double begin = MPI_Wtime();
        if (kind == 0)
          MPI_Allreduce(in, out, whole, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else if (kind == 1)
          MPI_Allgather(in, shard, MPI_FLOAT, out, shard, MPI_FLOAT, MPI_COMM_WORLD);
        else
          MPI_Reduce_scatter_block(in, out, shard, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        seconds[i] = MPI_Wtime() - begin;
      }
      qsort(seconds + 1, calls, sizeof(double), by_value);
      if (rank == 0)
        printf("{\"kind\": \"%s\", \"bytes\": %ld, \"processes\": %d, \"seconds\": %.9f}\n",
               kinds[kind], bytes, size, seconds[1 + calls / 2]);
      free(in);
      free(out);
      free(seconds);
    }
  MPI_Finalize();
  return 0;
}
