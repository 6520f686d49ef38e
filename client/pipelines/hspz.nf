// HSPs and LASTZ alignments of many queries against one reference; one process a query, each with a
// server of its own for as long as it runs. Not run yet: there was no Nextflow where this was written.
//
//   nextflow run client/pipelines/hspz.nf --reference ref.fa --queries 'queries/*.fa'

params.reference = null
params.queries = null
params.out = 'results'

process INDEX {
    cpus 4
    input: path reference
    output: path 'reference.hspz'
    script:
    """
    hspz-client --quiet index build $reference -o reference.hspz --threads ${task.cpus}
    """
}

process HSPS {
    tag "${query.simpleName}"
    cpus 4
    publishDir params.out
    input:
    tuple path(query), path(reference), path(index)
    output:
    path "${query.simpleName}.{hsps.tsv,maf}"
    script:
    """
    hspzd --socket \$PWD/hspz.sock --threads ${task.cpus} --index reference=$index --die-with-parent &
    export HSPZ_SERVER=unix:\$PWD/hspz.sock
    hspz-client --quiet --wait 600 hsps reference $query -o ${query.simpleName}.hsps.tsv
    hspz-client --quiet hsps reference $query --format segments -o hsps.segments
    hspz-client drain
    wait
    hspz-client --quiet align $reference $query hsps.segments -o ${query.simpleName}.maf \\
        --processes ${task.cpus}
    """
}

workflow {
    reference = Channel.value(file(params.reference))
    index = INDEX(reference)
    HSPS(Channel.fromPath(params.queries).combine(reference).combine(index))
}
