{#-
    Step 1 of a barrier: what the upstream has now, as read_upstream tells; with a change table of the user's
    own, `feed` is the same of that table. Its position is read first, so that the upstream is not behind it.

    Arguments:
      since (dict or none): the committed plan, none if nothing was read yet.
-#}
{% macro observe_upstream(backfill, state, since) %}
    {%- if not backfill.feed -%}
        {%- set observed = dbt_backfill.ask(backfill.upstream, 'read_upstream')(backfill.upstream, dbt_backfill.get_source(since), state.get('log')) -%}
        {%- do dbt_backfill.ask(backfill.upstream, 'check_feed')(observed) -%}
    {%- else -%}
        {%- set feed = dbt_backfill.ask(backfill.feed, 'read_upstream')(backfill.feed, dbt_backfill.get_source(since, 'feed'), state.get('log')) -%}
        {%- do dbt_backfill.ask(backfill.feed, 'check_feed')(feed) -%}
        {%- set observed = dict(dbt_backfill.ask(backfill.upstream, 'read_upstream')(backfill.upstream, dbt_backfill.get_source(since)), feed=feed) -%}
    {%- endif -%}
    {{ return(observed) }}
{% endmacro %}


{#-
    Why the changes since the committed plan cannot be read, as the end of a sentence; none if they can. What cannot be
    followed from now on either is refused.
-#}
{% macro find_feed_gap(backfill, observed, committed) %}
    {%- set feed = dbt_backfill.describe_change_table(backfill.feed) if backfill.feed else none -%}
    {%- if (dbt_backfill.get_source(committed, 'feed') or {}).get('definition') != feed -%} {{ return('change_feed was changed') }} {%- endif -%}
    {%- if not backfill.feed -%}
        {%- do dbt_backfill._check_key_followed(backfill, observed, committed) -%}
        {%- set gap = dbt_backfill.ask(backfill.upstream, 'upstream_gap')(observed, dbt_backfill.get_followed_source(committed)) -%}
    {%- elif not dbt_backfill.ask(backfill.upstream, 'continues_upstream')(observed, dbt_backfill.get_source(committed)) -%}
        {{ return('the upstream was replaced, went back to an earlier version or had columns changed') }}
    {%- else -%}
        {%- set gap = dbt_backfill.find_change_table_gap(backfill.feed, observed.feed, committed) -%}
    {%- endif -%}
    {%- if not gap -%} {{ return(none) }} {%- endif -%}
    {%- if gap.refusal -%} {%- do dbt_backfill.refuse(gap.refusal.fact, gap.refusal.change) -%} {%- endif -%}
    {{ return(gap.reason) }}
{% endmacro %}


{#- By the key of before: a model with another one is refused, or rebuilt, and a former generation may be what cannot be followed. -#}
{% macro _check_key_followed(backfill, observed, committed) %}
    {%- set names = (committed.get('key') or []) | map(attribute='name') | map('lower') | list -%}
    {%- if dbt_backfill.upstream_traits(backfill.upstream).stages_ranges and backfill.get('generation') != 'former' and names == backfill.options.unique_key | map('lower') | list -%}
        {%- do dbt_backfill.ask(backfill.upstream, 'check_followed')(observed, dbt_backfill.get_followed_source(committed)) -%}
    {%- endif -%}
{% endmacro %}
