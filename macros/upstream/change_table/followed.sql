{#-
    Step 1 of a barrier: what the upstream has now, as read_upstream tells; with a change table of the user's
    own, `feed` is the same of that table. Its position is read first, so that the upstream is not behind it.

    Arguments:
      since (dict or none): the committed plan, none if nothing was read yet.
-#}
{% macro observe_upstream(backfill, state, since) %}
    {%- if not backfill.feed -%}
        {%- set observed = dbt_backfill.read_upstream(backfill.upstream, dbt_backfill.get_source(since), state.get('log')) -%}
        {%- do dbt_backfill.check_upstream_feed(backfill.upstream, observed) -%}
    {%- else -%}
        {%- set feed = dbt_backfill.read_upstream(backfill.feed, dbt_backfill.get_source(since, 'feed'), state.get('log')) -%}
        {%- do dbt_backfill.check_upstream_feed(backfill.feed, feed) -%}
        {%- set observed = dict(dbt_backfill.read_upstream(backfill.upstream, dbt_backfill.get_source(since)), feed=feed) -%}
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
        {%- set gap = dbt_backfill.find_upstream_gap(backfill.upstream, observed, dbt_backfill.get_followed_source(committed)) -%}
    {%- elif not dbt_backfill.continues_upstream(backfill.upstream, observed, dbt_backfill.get_source(committed)) -%}
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
    {%- if backfill.get('generation') != 'former' and names == backfill.options.unique_key | map('lower') | list -%}
        {%- do dbt_backfill.check_followed(backfill.upstream, observed, dbt_backfill.get_followed_source(committed)) -%}
    {%- endif -%}
{% endmacro %}
