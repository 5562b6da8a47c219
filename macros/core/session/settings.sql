{#-
    Return the settings of the session that were set, as a dict of texts. A plain SET is not used: Spark would treat a following comment, such as
    dbt's query comment, as a part of the statement. If `backfill` is given, refuse a session in which its barriers are not exact, see check_settings.
-#}
{% macro read_settings(backfill=none) %}
    {%- set settings = {} -%}
    {%- for row in dbt_backfill.run_table('read the settings', "execute immediate 'set'") -%}
        {%- do settings.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- if backfill is not none -%} {%- do dbt_backfill.check_settings(backfill, settings) -%} {%- endif -%}
    {{ return(settings) }}
{% endmacro %}


{#- Return a SQL map of the three settings that a plan records only if its query depends on them, see find_used_settings. Users often set these
    settings, and the defaults depend on the machine. Spark SQL has a function that returns the time zone, but no function that returns the other two
    settings. For these two, the map has expressions whose results depend on the setting. -#}
{% macro common_settings_sql() -%}
    map(
        'spark.sql.session.timeZone', cast(current_timezone() as string),
        'spark.sql.ansi.enabled', cast(typeof(coalesce(1, '1')) <> 'string' as string),
        'spark.sql.ansi.doubleQuotedIdentifiers', cast(typeof(transform(array(1), a -> "a")) = 'array<int>' as string)
    )
{%- endmacro %}


{#-
    Return the default of a setting that changes the values of a query or the names of its columns; none for any other setting. The result is also
    none for a setting that only decides if a row fails, such as mapKeyDedupPolicy: a row that does not fail has the same values under every value of
    the setting. tests/recorded/spark_settings.json has a verdict for each setting of Spark. test_functions_of_spark.py checks that no setting is
    missing.
-#}
{% macro default_of_result_setting(name) %}
    {%- set on = [
        'analyzer.preferColumnOverLcaInArrayIndex', 'assumeAnsiFalseIfNotPersisted.enabled', 'chunkBase64String.enabled',
        'csv.parser.columnPruning.enabled', 'decimalOperations.allowPrecisionLoss', 'files.supportSecondOffsetFormat',
        'icu.caseMappings.enabled', 'json.enableExactStringParsing', 'json.enablePartialResults', 'jsonGenerator.ignoreNullFields',
        'jsonGenerator.writeNullIfWithDefaultValue', 'lateralColumnAlias.enableImplicitResolution',
        'legacy.execution.pandas.groupedMap.assignColumnsByName', 'legacy.followThreeValuedLogicInArrayExists',
        'legacy.histogramNumericPropagateInputType', 'legacy.literal.pickMinimumPrecision', 'legacy.replaceDatabricksSparkAvro.enabled',
        'legacy.setCommandRejectsSparkCoreConfs', 'legacy.sizeOfNull', 'legacy.viewSchemaBindingMode', 'legacy.viewSchemaCompensation',
        'mapZipWithUsesJavaCollections', 'optimizer.enableCsvExpressionOptimization', 'optimizer.enableJsonExpressionOptimization',
        'parquet.inferTimestampNTZ.enabled', 'parquet.int96AsTimestamp', 'runCollationTypeCastsBeforeAliasAssignment.enabled',
    ] -%}
    {%- set off = [
        'analyzer.singlePassResolver.enabled', 'analyzer.singlePassResolver.enabledTentatively',
        'analyzer.singlePassResolver.returnSinglePassResultInDualRun', 'caseSensitive', 'execution.pythonUDF.arrow.enabled',
        'execution.pythonUDF.pandas.intToDecimalCoercionEnabled', 'function.concatBinaryAsString', 'function.eltOutputAsString',
        'parquet.binaryAsString', 'parquet.fieldId.read.enabled', 'parquet.fieldId.read.ignoreMissing', 'parquet.ignoreVariantAnnotation',
        'parquet.int96TimestampConversion', 'parquet.reader.respectUnknownTypeAnnotation.enabled', 'parser.escapedStringLiterals',
        'preserveCharVarcharTypeInfo', 'stableDerivedColumnAlias.enabled', 'variant.allowDuplicateKeys',
    ] -%}
    {%- set others = {
        'spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled': 'true',
        'avro.datetimeRebaseModeInRead': 'CORRECTED', 'avro.datetimeRebaseModeInWrite': 'CORRECTED',
        'columnNameOfCorruptRecord': '_corrupt_record', 'legacy.csv.enableDateTimeParsingFallback': 'unset',
        'legacy.ctePrecedencePolicy': 'CORRECTED', 'legacy.json.enableDateTimeParsingFallback': 'unset',
        'legacy.nullInEmptyListBehavior': 'unset', 'legacy.timeParserPolicy': 'CORRECTED', 'parquet.datetimeRebaseModeInRead': 'CORRECTED',
        'parquet.datetimeRebaseModeInWrite': 'CORRECTED', 'parquet.int96RebaseModeInRead': 'CORRECTED',
        'parquet.int96RebaseModeInWrite': 'CORRECTED', 'timestampType': 'TIMESTAMP_LTZ',
    } -%}
    {%- set short = name[10:] if name.startswith('spark.sql.') else name -%}
    {%- if short in on -%} {{ return('true') }} {%- endif -%}
    {%- if short in off -%} {{ return('false') }} {%- endif -%}
    {{ return(others.get(short, 'false' if short.startswith('legacy.') else none)) }}
{% endmacro %}


{#- Return the settings that change the result of a query: {name: text}. A setting of common_settings_sql is returned only if its name is in `common`.
    For a state, `common` has all three settings. For a plan, `common` has the settings on which the plan's query depends. -#}
{% macro get_result_settings(settings, common) %}
    {%- set found = {} -%}
    {%- for name, value in settings.items() if name in common or dbt_backfill.default_of_result_setting(name) is not none -%}
        {%- do found.update({name: value}) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- Return the settings that change the result of a query, in a run that reads no state with the settings of common_settings_sql. -#}
{% macro read_result_settings(settings) %}
    {%- set common = dbt_backfill.run_json('read the common settings', 'select to_json(' ~ dbt_backfill.common_settings_sql() ~ ')')[0] -%}
    {{ return(dbt_backfill.get_result_settings(dict(settings, **common), common)) }}
{% endmacro %}


{#- Refuse a session in which barriers are not exact. A run calls this before it reads its state: some settings show an older state. -#}
{% macro check_settings(backfill, settings) %}
    {#- 'value': a regular expression for the refused values, in lower case; 'is': the value's name in a message; 'does': the effect of the value on
        Spark; 'to_do': the hint; 'format': the file_format of the MVs for which the value is refused; absent if the value is refused for all MVs. -#}
    {%- set leaves_out = 'Spark silently leaves out the rows of files that ' -%}
    {%- set for_dbt = ' for dbt (server_side_parameters, or the Spark server)' -%}
    {%- set on = {'value': 'true', 'is': 'on', 'to_do': 'Set it to false' ~ for_dbt} -%}
    {%- set off = {'value': 'false', 'is': 'off', 'to_do': 'Set it to true' ~ for_dbt} -%}
    {#- Every duration above 0 is refused: a fence that reads an old state would not stop a stale run. -#}
    {%- set more = {'value': '.*[1-9].*', 'is': 'set', 'to_do': 'Set it to 0' ~ for_dbt} -%}
    {%- set unsafe = {
        'spark.sql.parser.escapedStringLiterals': dict(
            on, does='Spark would misread backslashes in the statements of a run', to_do=on.to_do ~ ', and write the backslashes of the query twice',
        ),
        'spark.sql.files.ignoreMissingFiles': dict(on, does=leaves_out ~ 'no longer exist'),
        'spark.sql.files.ignoreCorruptFiles': dict(on, does=leaves_out ~ 'it cannot read'),
        'spark.sql.parser.quotedRegexColumnNames': dict(on, does='Spark reads a name in backticks as a pattern of names'),
        'spark.sql.readSideCharPadding': dict(off, does='Spark does not pad the values of a char(n) that it reads'),
        'spark.sql.legacy.charVarcharAsString': dict(
            on, does='Spark pads neither the values of a char(n) nor the values that are compared with them'
        ),
        'spark.sql.legacy.ctePrecedencePolicy': {
            'value': 'legacy', 'is': 'set to LEGACY', 'to_do': 'Set it to CORRECTED' ~ for_dbt,
            'does': 'Spark may read the upstream instead of a common table expression with the same name',
        },
        'spark.sql.storeAssignmentPolicy': {
            'value': 'legacy|strict', 'is': 'set to another value than ANSI', 'to_do': 'Set it to ANSI' ~ for_dbt, 'format': 'iceberg',
            'does': 'a MERGE into an Iceberg table may fail even if the types are equal',
        },
        'spark.databricks.delta.stalenessLimit': dict(more, does='Spark may read a Delta table as it was before the last commits'),
        'spark.databricks.delta.schema.autoMerge.enabled': dict(on, does='a MERGE would add columns to a Delta MV', format='delta'),
        'spark.databricks.delta.write.txnAppId': {
            'value': '.+', 'is': 'set', 'does': 'Delta skips all writes to a table except the first', 'format': 'delta',
            'to_do': 'Unset it, and spark.databricks.delta.write.txnVersion,' ~ for_dbt,
        },
    } -%}
    {%- for name, refused in unsafe.items()
            if refused.get('format', backfill.options.file_format) == backfill.options.file_format
            and modules.re.search('^(?:' ~ refused.value ~ ')$', settings.get(name, '') | lower) -%}
        {%- do dbt_backfill.refuse('the session has ' ~ name ~ ' ' ~ refused.is ~ ', so ' ~ refused.does,
            refused.to_do, mv=backfill.get('name'), id='session-setting') -%}
    {%- endfor -%}
    {%- do dbt_backfill.check_iceberg_catalogs(backfill, settings) -%}
{% endmacro %}


{#- Refuse an Iceberg catalog that caches its tables: a session would not see the commits that another session made in the last 30 s. So a run might
    use an old state, a fence might not stop a stale run, or an upstream might be behind its change table. Also refuse a catalog that overrides a
    table property on which exactness depends. -#}
{% macro check_iceberg_catalogs(backfill, settings) %}
    {%- set tables = [backfill.mv] if backfill.options.file_format == 'iceberg' else [] -%}
    {%- set followed = [backfill.upstream, backfill.feed] if backfill.feed else [(backfill.upstream or {}).get('feed')] -%}
    {%- for table in followed if table and table.kind and dbt_backfill.upstream_traits(table).may_be_cached -%}
        {%- do tables.append(table.relation) -%}
    {%- endfor -%}
    {%- for table in tables -%}
        {%- set catalog = dbt_backfill.get_catalog(table) or settings.get('spark.sql.defaultCatalog', 'spark_catalog') -%}
        {%- set setting = 'spark.sql.catalog.' ~ catalog ~ '.cache-enabled' -%}
        {%- if settings.get(setting, 'true') | lower != 'false' -%}
            {%- do dbt_backfill.refuse(
                'the Iceberg catalog ' ~ catalog ~ ' of ' ~ table.render() ~ ' caches tables, so a run would not see what another run has committed',
                'Set ' ~ setting ~ ' to false where the catalog is configured (server_side_parameters, or the Spark server)', mv=backfill.get('name'),
                id='catalog-caches-tables') -%}
        {%- endif -%}
        {%- for name, value in (dbt_backfill.exact_table_properties('iceberg') if table == backfill.mv else {}).items() -%}
            {%- set setting = 'spark.sql.catalog.' ~ catalog ~ '.table-override.' ~ name -%}
            {%- if settings.get(setting, value) | lower != value -%}
                {%- do dbt_backfill.refuse('the session has ' ~ setting ~ ' = ' ~ settings[setting] ~ ', so barriers would not be exact',
                    'Set it to ' ~ value ~ ', or remove it', mv=backfill.get('name'), id='catalog-table-override') -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}
